// The page of `transduce label`: one item at a time, or a grid of the members of a class to confirm at once.

import { $, addClass, answer, apply, ask, conflicts, count, current, element, inWords, isOpen, items } from "./answers.js";
import { know, labelAnew, lists, lookAt, page, plural, retry, say, set, token, undo, unsaved } from "./answers.js";

const JUST_SHOWN = 350; // milliseconds in which a key does not answer an item that has just replaced another
const PART = 48; // items of a grid
const unmarked = new Set(); // ids in the grid that are not members
let shownClass = null, total = 0, newest = 0;
let keysAct = localStorage.getItem("keys") !== "off"; // whether keys of a single character act
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
  const mine = unsaved.get(item.id);
  if (mine) return page.trouble ? ["unsaved", `not saved: ${inWords(mine)}`] : ["saving", `saving: ${inWords(mine)}`];
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
  for (const [name, text] of Object.entries(item.columns)) {
    words.append(element("p", { className: "column" }, element("b", { textContent: `${name}: ` }), text));
  }
  words.append(element("span", { className: "answer", textContent: status }));
  li.append(words);
  li.addEventListener("click", () => {
    if (grid && current.grid === id) toggle();
    choose(id);
  });
  return li;
}

function renderItems() {
  const { view } = page;
  const ids = view === "one" ? lists.one.filter((id) => id === current.one) : lists.grid;
  const state = ids.map((id) => [items.get(id), unsaved.get(id), unmarked.has(id), id === current[view]]);
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
  const ids = lists[view];
  for (const name of ["one", "grid"]) $(`tab-${name}`).setAttribute("aria-pressed", name === view);
  $("chosen").hidden = view !== "grid" || !state.classes.length;
  const members = lists.grid.filter(isMember).length;
  set($("confirm"), `Confirm ${plural(members, "item")} as ${shownClass || "…"}`);
  $("confirm").disabled = !members || !shownClass;
  const of = shownClass === "" ? "answered as none of these" : `of ${shownClass}`;
  const grid = `${plural(total, "item")} ${of}. Space unmarks an item that is none, a key corrects it, Enter confirms the marked.`;
  const left = ids.filter((id) => !isOpen(id)).length;
  const one = `${left} of ${ids.length} in this batch answered. Item ${ids.indexOf(current.one) + 1}.`;
  set($("about"), view === "grid" ? grid : ids.length ? one : "");
  set($("waiting"), view === "one" ? waiting(ids) : ids.length ? "" : "No item.");
  set($("name"), state.name);
  document.title = `${state.labelled} of ${state.total} · ${state.name} · transduce label`;
  const counts = [`${count(state.labelled)} of ${count(state.total)} labelled`];
  if (state.none) counts.push(`${count(state.none)} none of these`);
  if (state.skipped) counts.push(`${count(state.skipped)} skipped`);
  if (page.working) counts.push("predicting…");
  set($("counts"), counts.join(" · "));
}

function waiting(ids) {
  if (!page.state.classes.length) return "Add the names of your classes first, by the field New class.";
  if (ids.some(isOpen) || page.trouble) return "";
  if (unsaved.size) return "Saving your answers…";
  return page.working ? "The pile is being labelled anew. The next batch follows." : "There is nothing left to label.";
}

function classButton(name) {
  const key = keysAct && page.state.keys[name];
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
}

function renderClasses() {
  const { classes, keys, by_class: counts } = page.state;
  if (changed("classes", [classes, keysAct])) {
    $("classes").replaceChildren(...classes.map(classButton));
    $("find-line").hidden = classes.every((name) => keys[name]);
    set($("none-key"), Object.values(keys).includes("0") ? "-" : "0");
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
  const label = unsaved.get(item?.id)?.label ?? (item?.state === "labelled" ? item.label : null);
  const searched = $("find").value.trim().toLowerCase();
  for (const button of $("classes").children) {
    button.setAttribute("aria-pressed", button.title === label);
    button.hidden = !button.title.toLowerCase().includes(searched);
  }
}

function renderAccuracy() {
  const { accuracy } = page.state;
  let words = "No estimate yet. It comes from labels that you give after an item was predicted: go on labelling.";
  if (accuracy) {
    const [estimate, low, high] = [accuracy.estimate, accuracy.low, accuracy.high].map((share) => Math.round(100 * share));
    words = `${estimate}\u00a0% of the predictions are correct (95\u00a0% interval ${low} to ${high}\u00a0%), `;
    words += `from ${plural(accuracy.audited, "label")} given after the prediction.`;
  }
  set($("estimate"), words);
}

// What a person must know: answers that are not saved, conflicts, and problems of the server or the strategy.
function renderNotices() {
  const list = [];
  if (page.trouble) {
    const kept = unsaved.size ? ` ${plural(unsaved.size, "answer")} not saved yet: kept in this page.` : "";
    list.push([`${page.trouble}${kept}`, "Try again", retry]);
  } else if (page.state?.problem) list.push([`The pile could not be labelled anew: ${page.state.problem}`]);
  if (page.state?.hint) list.push([page.state.hint]);
  for (const [id, words] of conflicts) {
    list.push([words, "Look at it again", () => {
      conflicts.delete(id);
      lookAt(id);
      page.render();
      focusCurrent();
    }]);
  }
  if (!changed("notices", list)) return;
  $("notices").replaceChildren(
    ...list.map(([words, remedy, act]) => {
      const notice = element("div", { className: "notice" }, element("span", { textContent: words }));
      if (act) {
        notice.append(element("button", { type: "button", textContent: remedy }));
        notice.lastChild.addEventListener("click", act);
      }
      return notice;
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
  if (view === "grid") page.refresh();
  focusCurrent();
}

// Items that were unmarked stay so, although the class is predicted again.
page.refresh = () => {
  if (shownClass === null) return undefined;
  const number = (newest += 1);
  return labelAnew(async () => {
    const reply = await ask(`api/items?${new URLSearchParams({ class: shownClass, order: $("order").value, limit: PART })}`);
    if (number !== newest) return;
    lists.grid = reply.items.map(know);
    total = reply.total;
    if (!lists.grid.includes(current.grid)) current.grid = lists.grid[0] ?? null;
    apply(reply.state);
  });
};

function give(action, label) {
  const id = current[page.view];
  if (id === null) return say("No item is chosen.");
  if (performance.now() - page.shownAt < JUST_SHOWN) return say("The items have just changed. Look again, then answer.");
  answer([{ id, action, label }]);
  if (page.view === "grid") return move(1);
  const place = lists.one.indexOf(id);
  current.one = [...lists.one.slice(place + 1), ...lists.one.slice(0, place)].find(isOpen) ?? id;
  page.render();
  return focusCurrent();
}

async function confirm() {
  const members = lists.grid.filter(isMember);
  if (page.view !== "grid" || !members.length || !shownClass) return say("Confirm the members of a class in By class.");
  await answer(members.map((id) => ({ id, action: "label", label: shownClass })));
  if (!page.trouble) await page.refresh();
  return focusCurrent();
}

function toggle() {
  const id = current.grid;
  if (!unmarked.delete(id)) unmarked.add(id);
  page.render();
}

function choose(id) {
  current[page.view] = id;
  page.shownAt = -Infinity;
  page.render();
  focusCurrent();
}

function move(steps) {
  const list = lists[page.view];
  const place = Math.min(Math.max(list.indexOf(current[page.view]) + steps, 0), list.length - 1);
  choose(list[place] ?? null);
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
  if (writes || event.altKey || event.metaKey || !page.state) return undefined;
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
  if (!keysAct) return undefined;
  const key = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1] ?? event.key.toLowerCase();
  const label = page.state.classes.find((name) => page.state.keys[name] === key);
  if (label !== undefined) return take(() => give("label", label));
  if (key === "0" || key === "-") return take(() => give("none"));
  if (key === "+") return take(() => $("new-class").focus());
  if (key === "/" && !$("find-line").hidden) return take(() => $("find").focus());
  return undefined;
});

for (const name of ["one", "grid"]) $(`tab-${name}`).addEventListener("click", () => show(name));
for (const name of ["none", "skip"]) $(name).addEventListener("click", () => give(name));
$("undo").addEventListener("click", undo);
$("confirm").addEventListener("click", confirm);
$("order").addEventListener("change", page.refresh);
$("class").addEventListener("change", () => {
  shownClass = $("class").value;
  unmarked.clear();
  page.refresh();
});
$("find").addEventListener("input", page.render);
$("find").addEventListener("keydown", (event) => {
  const first = [...$("classes").children].find((button) => !button.hidden);
  if (event.key === "Enter" && $("find").value.trim()) first ? first.click() : say("No class has these letters in its name.");
});
$("add").addEventListener("submit", (event) => {
  event.preventDefault();
  addClass($("new-class").value.trim());
  focusCurrent();
});
function switchKeys() {
  keysAct = $("keys").checked;
  localStorage.setItem("keys", keysAct ? "on" : "off");
  document.body.classList.toggle("no-keys", !keysAct);
  page.render();
}
$("keys").checked = keysAct;
$("keys").addEventListener("change", switchKeys);
switchKeys();
for (const link of $("exports").children) {
  link.href = `api/export?${new URLSearchParams({ format: link.dataset.format, token })}`;
  link.addEventListener("click", () => unsaved.size && say(`${plural(unsaved.size, "answer")} not saved yet: not in the file.`));
}
retry();
