// What a person must know: answers that are not saved, conflicts, and problems of the server or the strategy.

import { $, element, plural } from "./dom.js";
import { focusCurrent, nodes } from "./items.js";
import { answers, conflicts, inWords, items, page } from "./model.js";
import { addAnswer, drain, drop, poll, sendAgain } from "./saving.js";

let shown = "[]";

function button(text, act) {
  const made = element("button", { type: "button", textContent: text });
  made.addEventListener("click", act);
  return made;
}

function problems(waiting) {
  if (page.trouble) {
    const unsaved = waiting ? ` ${plural(waiting, "answer")} not saved yet: kept in this page.` : "";
    return [[`${page.trouble}${unsaved}`, null, button("Try again", () => poll())]];
  }
  const list = [];
  if (page.state?.problem) list.push([`The pile could not be labelled anew: ${page.state.problem}`, null]);
  if (page.state?.hint) list.push([page.state.hint, null]);
  return list;
}

function ofRefused(answer) {
  const leave = () => {
    drop(answer);
    page.render();
  };
  const title = items.get(answer.id)?.title ?? answer.id;
  const words = `Not saved: ${title} as ${inWords(answer)}. ${answer.refused}`;
  const again = button("Try again", () => sendAgain(answer));
  return [words, answer.id, again, button("Drop the answer", leave)];
}

function ofConflict([id, { action, label }]) {
  const item = items.get(id);
  const theirs = inWords(item);
  const mine = action === "clear" ? "open" : inWords({ action, label });
  const keepTheirs = () => {
    conflicts.delete(id);
    page.render();
    focusCurrent();
  };
  const takeMine = () => {
    addAnswer(id, action, label);
    drain();
    focusCurrent();
  };
  const words = `${item.title} was answered in another window: ${theirs}. Your answer, ${mine}, was not saved.`;
  return [words, id, button(`Keep ${theirs}`, keepTheirs), button(`Change to ${mine}`, takeMine)];
}

export function renderNotices() {
  const refused = [...answers.values()].filter((answer) => answer.refused);
  const list = [
    ...problems(answers.size - refused.length),
    ...refused.map(ofRefused),
    ...[...conflicts].map(ofConflict),
  ];
  const text = JSON.stringify(list.map(([words]) => words));
  if (shown === text) return;
  shown = text;
  const within = $("notices").contains(document.activeElement);
  $("notices").replaceChildren(
    ...list.map(([words, id, ...actions]) => {
      const notice = element("div", { className: "notice" });
      const picture = id === null ? null : nodes.get(id)?.shown;
      if (picture?.src) notice.append(element("img", { src: picture.src, alt: "" }));
      notice.append(element("span", { textContent: words }), ...actions);
      return notice;
    }),
  );
  if (within && document.activeElement === document.body) focusCurrent();
}
