// The page of `transduce label`: one item at a time, or a grid of the members of a class to confirm at once.

import { $, answers, asked, conflicts, count, current, element, inWords, isOpen, items, know } from "./model.js";
import { lists, page, percent, plural, Refused, say, set, token } from "./model.js";
import { addAnswers, addClass, poll, undo } from "./saving.js";

const JUST_SHOWN = 350; // milliseconds in which a key does not answer an item that has just replaced another
const PART = 48; // items of a grid
const unmarked = new Set(); // ids in the grid that are not members
let shownClass = null, total = 0, newest = 0;
const pictures = new Map(); // by address
const made = {}; // texts for which parts of the page were made

const changed = (part, value) => {
  const text = JSON.stringify(value);
  return made[part] !== text && Boolean((made[part] = text));
};
const isMember = (id) => isOpen(id) && !unmarked.has(id);

function pictureOf(item, size) {
  const source = `${item.picture}?${new URLSearchParams({ size, token })}`;
  if (!pictures.has(source)) pictures.set(source, element("img", { alt: item.title, draggable: false, src: source }));
  return pictures.get(source);
}

function statusOf(item) {
  const answer = answers.get(item.id);
  if (answer) {
    return page.trouble ? ["unsaved", `not saved: ${inWords(answer)}`] : ["saving", `saving: ${inWords(answer)}`];
  }
  return [item.state, item.state === "open" ? "" : inWords(item)];
}

function itemNode(id) {
  const item = items.get(id);
  const chosen = current[page.view] === id;
  const grid = page.view === "grid";
  const [kind, status] = statusOf(item);
  const li = element("li", { className: `item ${kind}`, tabIndex: chosen ? 0 : -1 });
  li.dataset.id = id;
  li.setAttribute("role", "option");
  li.setAttribute("aria-selected", chosen);
  if (grid) li.classList.toggle("marked", isMember(id));
  if (item.picture) li.append(pictureOf(item, grid ? 300 : 1000));
  const words = element("div", { className: "words" }, element("span", { className: "title", textContent: item.title }));
  for (const [name, text] of Object.entries(item.columns ?? {})) {
    words.append(element("p", { className: "column" }, element("b", { textContent: `${name}: ` }), text));
  }
  if (grid) words.append(element("span", { className: "sure", textContent: percent(item.sure ?? 0) }));
  words.append(element("span", { className: "answer", textContent: status }));
  li.append(words);
  li.addEventListener("click", () => {
    if (grid && current.grid === id) toggle();
    current[page.view] = id;
    page.shownAt = -Infinity;
    page.render();
    focusCurrent();
  });
  return li;
}

function renderItems() {
  const { view } = page;
  const ids = view === "one" ? lists.one.filter((id) => id === current.one) : lists.grid;
  const state = ids.map((id) => [items.get(id), answers.get(id), unmarked.has(id), id === current[view]]);
  if (!changed("items", [view, state, page.trouble])) return;
  const had = $("items").contains(document.activeElement) || document.activeElement === document.body;
  $("items").className = view;
  $("items").replaceChildren(...ids.map(itemNode));
  if (had) focusCurrent();
}

function focusCurrent() {
  const node = [...$("items").children].find((li) => li.dataset.id === current[page.view]) ?? $("items");
  node.focus({ preventScroll: true });
  if (node !== $("items")) node.scrollIntoView({ block: "nearest" });
}

function renderWords() {
  const { state, view } = page;
  for (const name of ["one", "grid"]) $(`tab-${name}`).setAttribute("aria-pressed", name === view);
  $("chosen").hidden = view !== "grid" || !state.classes.length;
  const members = lists.grid.filter(isMember).length;
  set($("confirm"), `Confirm ${plural(members, "item")} as ${shownClass || "…"}`);
  $("confirm").disabled = !members || !shownClass;
  const ids = lists[view];
  const left = ids.filter((id) => !isOpen(id)).length;
  const place = ids.indexOf(current[view]) + 1;
  const of = shownClass === "" ? "answered as none of these" : `of ${shownClass}`;
  const told = `${plural(total, "item")} ${of}. Space unmarks an item that is none, a key corrects it, Enter confirms the marked.`;
  set($("about"), view === "grid" ? told : ids.length ? `${left} of ${ids.length} in this batch answered. Item ${place}.` : "");
  set($("waiting"), view === "one" ? waiting(ids) : ids.length ? "" : "No item.");
  set($("name"), state.name);
  document.title = `${state.labelled} of ${state.total} · ${state.name} · transduce label`;
  const counts = [`${count(state.labelled)} of ${count(state.total)} labelled`];
  if (state.none) counts.push(`${count(state.none)} none of these`);
  if (state.skipped) counts.push(`${count(state.skipped)} skipped`);
  if (state.working) counts.push("predicting…");
  set($("counts"), counts.join(" · "));
}

function waiting(ids) {
  if (!page.state.classes.length) return "Add the names of your classes first, by the field New class.";
  if (ids.some(isOpen)) return "";
  if (answers.size) return page.trouble ? "" : "Saving your answers…";
  if (page.state.working) return "The pile is being labelled anew. The next batch follows.";
  return ids.length ? "Waiting for the next batch." : "There is nothing left to label.";
}

function renderClasses() {
  const { classes, keys, by_class: counts } = page.state;
  if (changed("classes", [classes, page.keys])) {
    $("classes").replaceChildren(
      ...classes.map((name) => {
        const key = page.keys && keys[name];
        const button = element("button", { type: "button", title: name });
        if (key) {
          button.setAttribute("aria-keyshortcuts", key);
          button.append(element("kbd", { textContent: key }), " ");
        }
        button.append(element("span", { textContent: name }));
        button.addEventListener("click", () => {
          give("label", name);
          $("find").value = "";
          page.render();
        });
        return button;
      }),
    );
    $("find-line").hidden = classes.every((name) => keys[name]);
  }
  if (changed("counts", counts)) {
    const options = counts.map(({ name, labelled, predicted }) =>
      element("option", { value: name, textContent: `${name} (${count(labelled)} labelled, ${count(predicted)} predicted)` }),
    );
    $("class").replaceChildren(...options, element("option", { value: "", textContent: "(none of these)" }));
    shownClass ??= classes[0] ?? null;
    $("class").value = shownClass ?? "";
  }
  const item = items.get(current[page.view]);
  const label = answers.get(item?.id)?.label ?? (item?.state === "labelled" ? item.label : null);
  const searched = $("find").value.trim().toLowerCase();
  for (const button of $("classes").children) {
    button.setAttribute("aria-pressed", button.title === label);
    button.hidden = !button.title.toLowerCase().includes(searched);
  }
}

function renderAccuracy() {
  const { accuracy } = page.state;
  if (!changed("accuracy", accuracy)) return;
  if (!accuracy) {
    set($("estimate"), "No estimate yet. It comes from labels that you give after an item was predicted: go on labelling.");
    return;
  }
  const interval = `${Math.round(100 * accuracy.low)} to ${percent(accuracy.high)}`;
  const words = `${percent(accuracy.estimate)} of the predictions are correct (95\u00a0% interval ${interval})`;
  set($("estimate"), `${words}, from ${plural(accuracy.audited, "label")} given after the prediction.`);
}

// What a person must know: answers that are not saved, conflicts, and problems of the server or the strategy.
function renderNotices() {
  const list = [];
  if (page.trouble) {
    const unsaved = answers.size ? ` ${plural(answers.size, "answer")} not saved yet: kept in this page.` : "";
    list.push([`${page.trouble}${unsaved}`, ["Try again", poll]]);
  } else if (page.state?.problem) list.push([`The pile could not be labelled anew: ${page.state.problem}`]);
  if (page.state?.hint) list.push([page.state.hint]);
  for (const [id, answer] of conflicts) {
    const item = items.get(id);
    const [theirs, mine] = [inWords(item), inWords(answer)];
    const leave = () => conflicts.delete(id) && page.render();
    const words = `${item.title} was answered in another window: ${theirs}. Your answer, ${mine}, was not saved.`;
    list.push([words, [`Keep ${theirs}`, leave], [`Change to ${mine}`, () => addAnswers([{ id, ...answer }])]]);
  }
  if (!changed("notices", list.map(([words]) => words))) return;
  $("notices").replaceChildren(
    ...list.map(([words, ...actions]) => {
      const buttons = actions.map(([textContent, act]) => {
        const button = element("button", { type: "button", textContent });
        button.addEventListener("click", act);
        return button;
      });
      return element("div", { className: "notice" }, element("span", { textContent: words }), ...buttons);
    }),
  );
}

page.render = () => {
  if (page.state) {
    renderClasses();
    renderItems();
    renderWords();
    renderAccuracy();
  }
  renderNotices();
};

function show(view) {
  page.view = view;
  page.shownAt = -Infinity;
  page.render();
  if (view === "grid") refresh();
  focusCurrent();
}

async function refresh() {
  if (shownClass === null) return;
  const number = (newest += 1);
  try {
    const query = new URLSearchParams({ class: shownClass, order: $("order").value, limit: PART });
    const reply = await asked(`api/items?${query}`);
    if (number !== newest) return;
    lists.grid = reply.items.map(know);
    total = reply.total;
    unmarked.clear();
    if (!lists.grid.includes(current.grid)) current.grid = lists.grid[0] ?? null;
  } catch (error) {
    if (error instanceof Refused) say(error.message);
    else page.trouble = error.message;
  }
  page.render();
}

function give(action, label) {
  const id = current[page.view];
  if (id === null || !items.has(id)) return say("No item is chosen.");
  if (performance.now() - page.shownAt < JUST_SHOWN) return say("The items have just changed. Look again, then answer.");
  addAnswers([{ id, action, label }]);
  if (page.view === "grid") return move(1);
  const place = lists.one.indexOf(id);
  current.one = [...lists.one.slice(place + 1), ...lists.one.slice(0, place)].find(isOpen) ?? id;
  page.render();
  return focusCurrent();
}

async function confirm() {
  const members = lists.grid.filter(isMember);
  if (page.view !== "grid" || !members.length || !shownClass) return say("Confirm the members of a class in By class.");
  addAnswers(members.map((id) => ({ id, action: "label", label: shownClass })));
  return focusCurrent();
}

function toggle() {
  const id = current.grid;
  if (!unmarked.delete(id)) unmarked.add(id);
  page.render();
}

function move(steps) {
  const list = lists[page.view];
  const place = Math.min(Math.max(list.indexOf(current[page.view]) + steps, 0), list.length - 1);
  current[page.view] = list[place] ?? null;
  page.shownAt = -Infinity;
  page.render();
  focusCurrent();
}

const MOVES = {
  ArrowLeft: () => move(-1),
  ArrowRight: () => move(1),
  Home: () => move(-Infinity),
  End: () => move(Infinity),
  Delete: () => give("clear"),
  Backspace: undo,
};

document.addEventListener("keydown", (event) => {
  const { target } = event;
  const writes = target.closest("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && (writes || $("side").contains(target))) return focusCurrent();
  if (writes || event.altKey || event.metaKey) return undefined;
  const take = (act) => {
    event.preventDefault();
    return event.repeat && !event.key.startsWith("Arrow") ? undefined : act();
  };
  if (event.ctrlKey) return event.key.toLowerCase() === "z" && !event.shiftKey ? take(undo) : undefined;
  if (event.key === "Enter" || event.key === " ") {
    if (target.closest("button, summary, a, input")) return undefined;
    return take(event.key === "Enter" ? confirm : page.view === "grid" ? toggle : () => give("skip"));
  }
  if (Object.hasOwn(MOVES, event.key)) return take(MOVES[event.key]);
  // WCAG 2.1.4: speech input and shaking hands press keys of one character unwillingly; they can be switched off.
  if (!page.keys) return undefined;
  const key = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1] ?? event.key.toLowerCase();
  const label = page.state?.classes.find((name) => page.state.keys[name] === key);
  if (key === "0" || key === "-") return take(() => give("none"));
  if (label !== undefined) return take(() => give("label", label));
  if (key === "+") return take(() => $("new-class").focus());
  if (key === "/" && !$("find-line").hidden) return take(() => $("find").focus());
  return undefined;
});

document.addEventListener("visibilitychange", () => document.hidden || poll());
for (const name of ["one", "grid"]) $(`tab-${name}`).addEventListener("click", () => show(name));
$("none").addEventListener("click", () => give("none"));
$("skip").addEventListener("click", () => give("skip"));
$("undo").addEventListener("click", undo);
$("confirm").addEventListener("click", confirm);
$("order").addEventListener("change", refresh);
$("class").addEventListener("change", () => {
  shownClass = $("class").value;
  refresh();
});
$("find").addEventListener("input", () => page.render());
$("find").addEventListener("keydown", (event) => {
  const first = [...$("classes").children].find((button) => !button.hidden);
  if (event.key === "Enter" && $("find").value.trim()) first ? first.click() : say("No class has these letters in its name.");
});
$("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("new-class").value.trim();
  if (!name) return;
  addClass(name);
  focusCurrent();
});
function showKeys() {
  $("keys").checked = page.keys;
  document.body.classList.toggle("no-keys", !page.keys);
  page.render();
}
$("keys").addEventListener("change", () => {
  page.keys = $("keys").checked;
  localStorage.setItem("keys", page.keys ? "on" : "off");
  showKeys();
});
for (const link of $("exports").children) {
  link.href = `api/export?${new URLSearchParams({ format: link.dataset.format, token })}`;
  link.addEventListener("click", () => answers.size && say(`${plural(answers.size, "answer")} not saved yet: not in the file.`));
}
showKeys();
poll();
