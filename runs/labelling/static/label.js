// The page of `transduce label`: one item at a time, or a grid of the members of a class to confirm at once.
// An answer counts when the server has replied that it is on disk; until then it is kept here and in the storage of this
// tab, and sent again. All texts are set as text, never as HTML.

const RETRY = 4000; // milliseconds until the server is asked again that did not answer
const JUST_SHOWN = 350; // milliseconds in which a key does not answer an item that has just replaced another
const PART = 48; // items of a grid
const ACTIONS = { label: "labelled", none: "none", skip: "skipped", clear: "open" };

let state = null; // as the server sent it last
let view = "one";
let trouble = ""; // why the server cannot be asked
let working = 0; // questions for which the pile is being labelled anew
let groups = 0; // of answers that were given together
let shownAt = -Infinity;
let shownClass = null, total = 0, newest = 0; // of the grid: class, number of its items, and of the last question
let keysAct = localStorage.getItem("keys") !== "off"; // whether keys of a single character act
const items = new Map(); // by id, as the server last sent them
const unsaved = new Map(); // answers by id
const conflicts = new Map(); // by id: what to say of an answer that another window was faster than
const lists = { one: [], grid: [] }; // ids
const current = { one: null, grid: null };
const undone = new Set(); // ids that were answered once, shown before the batch
const unmarked = new Set(); // ids in the grid that are not members
const pictures = new Map(); // by address
const drawn = {}; // texts for which parts of the page were drawn

const $ = (id) => document.getElementById(id);
const count = (number) => number.toLocaleString("en");
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const set = (id, text) => $(id).textContent !== text && ($(id).textContent = text);
const say = (words) => set("said", words);
const isOpen = (id) => items.get(id).state === "open" && !unsaved.has(id);
const isMember = (id) => isOpen(id) && !unmarked.has(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// Draws a part of the page again if what it shows has changed, so that the focus in it is kept.
function draw(id, value, make) {
  const text = JSON.stringify(value);
  if (drawn[id] === text) return false;
  drawn[id] = text;
  $(id).replaceChildren(...make());
  return true;
}

function know(item) {
  items.set(item.id, item);
  return item.id;
}

function inWords({ action, state: kept, label }) {
  const wanted = action ? ACTIONS[action] : kept;
  return wanted === "labelled" ? label : wanted === "none" ? "none of these" : wanted;
}

const given = new URL(location.href).searchParams.get("token");
if (given) sessionStorage.setItem("token", given);
const token = sessionStorage.getItem("token") ?? "";
const client = sessionStorage.getItem("client") ?? `${Date.now()}-${Math.random()}`;
sessionStorage.setItem("client", client);

// ---- Questions to the server ----

class Refused extends Error {}

async function ask(path, body) {
  const options = { headers: { "X-Label-Token": token, "Content-Type": "application/json" }, cache: "no-store" };
  let reply;
  try {
    reply = await fetch(path, body ? { ...options, method: "POST", body: JSON.stringify(body) } : options);
  } catch {
    throw new Error("The server does not answer. If it has stopped, start transduce label again.");
  }
  if (reply.ok) return reply.json();
  if (reply.status === 403) {
    throw new Error("The server does not accept this page. Open the address that transduce label printed last.");
  }
  const known = await reply.json().catch(() => ({}));
  const words = `The server answers: ${known.error ?? `error ${reply.status}`}.`;
  throw reply.status >= 500 ? new Error(words) : new Refused(words);
}

let turn = Promise.resolve();

// Asks one question after the other, so that a later answer does not overtake an earlier one.
function inTurn(act) {
  turn = turn.then(() => attempt(act));
  return turn;
}

async function attempt(act) {
  try {
    await act();
    trouble = "";
  } catch (error) {
    if (error instanceof Refused) say(error.message);
    else {
      if (!trouble) setTimeout(retry, RETRY);
      trouble = error.message;
    }
  }
  render();
}

function retry() {
  trouble = "";
  return inTurn(async () => {
    await send();
    const isFirst = state === null;
    apply(await ask("api/state"));
    if (isFirst) step();
  });
}

// Labels the pile anew on the server, beside other questions, since that may take a while.
async function labelAnew(act) {
  working += 1;
  render();
  await attempt(act);
  working -= 1;
  if (!trouble) nextBatch();
  render();
}

const step = () => labelAnew(async () => apply((await ask("api/step", {})).state));

function nextBatch() {
  if (state?.stale && !working && !unsaved.size && !lists.one.some(isOpen)) step();
}

function keep() {
  document.body.dataset.unsaved = unsaved.size;
  sessionStorage.setItem(`unsaved ${state.name}`, JSON.stringify([...unsaved.values()]));
}

window.addEventListener("beforeunload", (event) => unsaved.size && event.preventDefault());

// `given` has id, action and label of answers that are given, and undone, together.
function answer(given) {
  const group = `${performance.timeOrigin} ${(groups += 1)}`;
  for (const one of given) {
    unsaved.delete(one.id); // so that the newest answer is the last
    unsaved.set(one.id, { ...one, version: items.get(one.id).version, group });
    conflicts.delete(one.id);
  }
  keep();
  render();
  return inTurn(send);
}

async function send() {
  while (unsaved.size) {
    const [first] = unsaved.values();
    const sent = [...unsaved.values()].filter(({ group }) => group === first.group);
    const forget = () => {
      sent.forEach((one) => unsaved.get(one.id) === one && unsaved.delete(one.id));
      keep();
    };
    let reply;
    try {
      reply = await ask("api/answers", { client, answers: sent.map(({ group, ...one }) => one) });
    } catch (error) {
      if (error instanceof Refused) forget();
      throw error;
    }
    for (const item of reply.items) {
      know(item);
      const mine = sent.find(({ id }) => id === item.id);
      if (unsaved.get(item.id) !== mine) unsaved.get(item.id).version = item.version;
      else if (reply.conflicts.includes(item.id)) {
        conflicts.set(item.id, `${item.title} was answered in another window: ${inWords(item)}. Your answer, ${inWords(mine)}, was not saved.`);
      }
    }
    forget();
    apply(reply.state);
    const saved = sent.length - reply.conflicts.length;
    const one = first.action === "clear" ? "Cleared" : `Saved as ${inWords(first)}`;
    const words = sent.length > 1 ? `Saved ${plural(saved, "answer")}` : one;
    if (saved) say(`${words}, ${count(state.labelled)} of ${count(state.total)}.`);
    render();
  }
}

// Takes back what was given together last.
const undo = () => inTurn(async () => {
  await send();
  const reply = await ask("api/undo", { client });
  reply.items.map(know).forEach((id) => undone.add(id));
  apply(reply.state);
  const [first] = reply.items;
  if (!first) return say("There is nothing to undo in this window.");
  if (view === "grid") refresh();
  else lookAt(first.id);
  return say(`Undone: ${first.title} is ${inWords(first)}.`);
});

function lookAt(id) {
  undone.add(id);
  if (!lists.one.includes(id)) lists.one.unshift(id);
  view = "one";
  current.one = id;
  shownAt = -Infinity;
}

const addClass = (name) => inTurn(async () => {
  const before = state.classes.length;
  apply((await ask("api/classes", { name })).state);
  $("new-class").value = "";
  const added = state.classes.at(-1).name;
  const key = state.keys[added];
  say(state.classes.length === before ? `The class ${name} exists.` : `Added the class ${added}.${key ? ` Its key is ${key}.` : ""}`);
});

function apply(next) {
  if (state === null) {
    for (const one of JSON.parse(sessionStorage.getItem(`unsaved ${next.name}`) ?? "[]")) unsaved.set(one.id, one);
    if (unsaved.size) inTurn(send);
  } else if (next.version < state.version) return; // a reply that others have overtaken
  state = next;
  shownClass ??= state.classes[0]?.name ?? null;
  document.body.dataset.unsaved = unsaved.size;
  const ids = next.batch.map(know);
  const isNew = ids.some((id) => !lists.one.includes(id));
  if (isNew) undone.forEach((id) => isOpen(id) || undone.delete(id));
  if (isNew && current.one !== null && isOpen(current.one) && !ids.includes(current.one)) shownAt = performance.now();
  lists.one = [...[...undone].filter((id) => !ids.includes(id)), ...ids];
  const stays = lists.one.includes(current.one) && (!isNew || isOpen(current.one));
  if (!stays) current.one = lists.one.find(isOpen) ?? lists.one.at(-1) ?? null;
  nextBatch();
}

// Asks for the items of the grid. Those that were unmarked stay so, although the class is predicted again.
function refresh() {
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
}

// ---- What is shown ----

function pictureOf(item, size) {
  const source = `${item.picture}?${new URLSearchParams({ size, token })}`;
  if (!pictures.has(source)) pictures.set(source, element("img", { alt: item.title, draggable: false, src: source }));
  return pictures.get(source);
}

function itemNode(id) {
  const item = items.get(id);
  const mine = unsaved.get(id);
  const chosen = current[view] === id;
  const kind = mine ? (trouble ? "unsaved" : "saving") : item.state;
  const status = mine ? `${trouble ? "not saved" : kind}: ${inWords(mine)}` : kind === "open" ? "" : inWords(item);
  const words = element("div", { className: "words" }, element("span", { className: "title", textContent: item.title }));
  for (const [name, text] of Object.entries(item.columns)) {
    words.append(element("p", { className: "column" }, element("b", { textContent: `${name}: ` }), text));
  }
  words.append(element("span", { className: "answer", textContent: status }));
  const li = element("li", { className: `item ${kind}`, tabIndex: chosen ? 0 : -1, role: "option", ariaSelected: chosen }, words);
  li.dataset.id = id;
  li.classList.toggle("marked", view === "grid" && isMember(id));
  if (item.picture) li.prepend(pictureOf(item, view === "grid" ? 300 : 1000));
  li.addEventListener("click", () => {
    if (view === "grid" && current.grid === id) toggle();
    choose(id);
  });
  return li;
}

function focusCurrent() {
  const node = [...$("items").children].find((li) => li.dataset.id === current[view]) ?? $("items");
  node.focus({ preventScroll: true });
  if (node !== $("items")) node.scrollIntoView({ block: "nearest" });
}

function renderItems() {
  const ids = view === "one" ? lists.one.filter((id) => id === current.one) : lists.grid;
  const shown = ids.map((id) => [items.get(id), unsaved.get(id), unmarked.has(id), id === current[view]]);
  const had = $("items").contains(document.activeElement) || document.activeElement === document.body;
  $("items").className = view;
  if (draw("items", [view, shown, trouble], () => ids.map(itemNode)) && had) focusCurrent();
}

function renderWords() {
  const ids = lists[view];
  for (const name of ["one", "grid"]) $(`tab-${name}`).setAttribute("aria-pressed", name === view);
  $("chosen").hidden = view !== "grid" || !state.classes.length;
  const members = lists.grid.filter(isMember).length;
  set("confirm", `Confirm ${plural(members, "item")} as ${shownClass || "…"}`);
  $("confirm").disabled = !members || !shownClass;
  const of = shownClass === "" ? "answered as none of these" : `of ${shownClass}`;
  const grid = `${plural(total, "item")} ${of}. Space unmarks an item that is none, a key corrects it, Enter confirms the marked.`;
  const left = ids.filter((id) => !isOpen(id)).length;
  const one = `${left} of ${ids.length} in this batch answered. Item ${ids.indexOf(current.one) + 1}.`;
  set("about", view === "grid" ? grid : ids.length ? one : "");
  set("waiting", view === "one" ? waiting(ids) : ids.length ? "" : "No item.");
  set("name", state.name);
  document.title = `${state.labelled} of ${state.total} · ${state.name} · transduce label`;
  const counts = [`${count(state.labelled)} of ${count(state.total)} labelled`];
  if (state.none) counts.push(`${count(state.none)} none of these`);
  if (state.skipped) counts.push(`${count(state.skipped)} skipped`);
  if (working) counts.push("predicting…");
  set("counts", counts.join(" · "));
  const { accuracy } = state;
  let words = "No estimate yet. It comes from labels that you give after an item was predicted: go on labelling.";
  if (accuracy) {
    const [estimate, low, high] = [accuracy.accuracy, accuracy.low, accuracy.high].map((share) => Math.round(100 * share));
    words = accuracy.audited < 10 ? "" : `about ${estimate}\u00a0%, and `;
    words = `Of the predictions, ${words}with 95\u00a0% confidence ${low} to ${high}\u00a0%, are correct, `;
    words += `from ${plural(accuracy.audited, "label")} of items drawn at random.`;
  }
  set("estimate", words);
}

function waiting(ids) {
  if (!state.classes.length) return "Add the names of your classes first, by the field New class.";
  if (ids.some(isOpen) || trouble) return "";
  if (unsaved.size) return "Saving your answers…";
  return working ? "The pile is being labelled anew. The next batch follows." : "There is nothing left to label.";
}

function classButton({ name }) {
  const key = keysAct && state.keys[name];
  const button = element("button", { type: "button", title: name }, element("span", { textContent: name }));
  if (key) {
    button.setAttribute("aria-keyshortcuts", key);
    button.prepend(element("kbd", { textContent: key }), " ");
  }
  button.addEventListener("click", () => {
    give("label", name);
    $("find").value = "";
    render();
  });
  return button;
}

function renderClasses() {
  const { classes, keys } = state;
  draw("classes", [keysAct, classes.map(({ name }) => name)], () => classes.map(classButton));
  draw("class", classes, () => [
    ...classes.map(({ name, labelled, predicted }) =>
      element("option", { value: name, textContent: `${name} (${count(labelled)} labelled, ${count(predicted)} predicted)` }),
    ),
    element("option", { value: "", textContent: "(none of these)" }),
  ]);
  $("class").value = shownClass ?? "";
  $("find-line").hidden = classes.every(({ name }) => keys[name]);
  set("none-key", Object.values(keys).includes("0") ? "-" : "0");
  const item = items.get(current[view]);
  const label = unsaved.get(item?.id)?.label ?? (item?.state === "labelled" ? item.label : null);
  const searched = $("find").value.trim().toLowerCase();
  for (const button of $("classes").children) {
    button.setAttribute("aria-pressed", button.title === label);
    button.hidden = !button.title.toLowerCase().includes(searched);
  }
}

// What a person must know: answers that are not saved, conflicts, and problems of the server or the strategy.
function renderNotices() {
  const list = [];
  if (trouble) {
    const kept = unsaved.size ? ` ${plural(unsaved.size, "answer")} not saved yet: kept in this page.` : "";
    list.push([`${trouble}${kept}`, "Try again", retry]);
  } else if (state?.problem) list.push([`The pile could not be labelled anew: ${state.problem}`]);
  if (state?.hint) list.push([state.hint]);
  for (const [id, words] of conflicts) {
    list.push([words, "Look at it again", () => {
      conflicts.delete(id);
      lookAt(id);
      render();
      focusCurrent();
    }]);
  }
  draw("notices", list, () => list.map(([words, remedy, act]) => {
    const notice = element("div", { className: "notice" }, element("span", { textContent: words }));
    if (act) notice.append(element("button", { type: "button", textContent: remedy, onclick: act }));
    return notice;
  }));
}

function render() {
  if (state) {
    renderClasses();
    renderItems();
    renderWords();
  }
  renderNotices();
}

// ---- What a person does ----

function show(name) {
  view = name;
  shownAt = -Infinity;
  render();
  if (view === "grid") refresh();
  focusCurrent();
}

function give(action, label) {
  const id = current[view];
  if (id === null) return say("No item is chosen.");
  if (performance.now() - shownAt < JUST_SHOWN) return say("The items have just changed. Look again, then answer.");
  answer([{ id, action, label }]);
  if (view === "grid") return move(1);
  const place = lists.one.indexOf(id);
  current.one = [...lists.one.slice(place + 1), ...lists.one.slice(0, place)].find(isOpen) ?? id;
  render();
  return focusCurrent();
}

async function confirm() {
  const members = lists.grid.filter(isMember);
  if (view !== "grid" || !members.length || !shownClass) return say("Confirm the members of a class in By class.");
  await answer(members.map((id) => ({ id, action: "label", label: shownClass })));
  if (!trouble) await refresh();
  return focusCurrent();
}

function toggle() {
  if (!unmarked.delete(current.grid)) unmarked.add(current.grid);
  render();
}

function choose(id) {
  current[view] = id;
  shownAt = -Infinity;
  render();
  focusCurrent();
}

function move(steps) {
  const list = lists[view];
  choose(list[Math.min(Math.max(list.indexOf(current[view]) + steps, 0), list.length - 1)] ?? null);
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
  if (writes || event.altKey || event.metaKey || !state) return undefined;
  const take = (act) => {
    event.preventDefault();
    return event.repeat && !event.key.startsWith("Arrow") ? undefined : act();
  };
  if (event.ctrlKey) return event.key.toLowerCase() === "z" && !event.shiftKey ? take(undo) : undefined;
  if (event.key === "Enter" || event.key === " ") {
    if (target.closest("button, summary, a, input")) return undefined;
    return take(event.key === "Enter" ? confirm : view === "grid" ? toggle : () => give("skip"));
  }
  if (Object.hasOwn(MOVES, event.key)) return take(MOVES[event.key]);
  // WCAG 2.1.4: speech input and shaking hands press keys of one character unwillingly; they can be switched off.
  if (!keysAct) return undefined;
  const key = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1] ?? event.key.toLowerCase();
  const label = Object.keys(state.keys).find((name) => state.keys[name] === key);
  if (label !== undefined) return take(() => give("label", label));
  if (key === "0" || key === "-") return take(() => give("none"));
  if (key === "+") return take(() => $("new-class").focus());
  if (key === "/" && !$("find-line").hidden) return take(() => $("find").focus());
  return undefined;
});

function switchKeys() {
  keysAct = $("keys").checked;
  localStorage.setItem("keys", keysAct ? "on" : "off");
  document.body.classList.toggle("no-keys", !keysAct);
  render();
}

for (const name of ["one", "grid"]) $(`tab-${name}`).addEventListener("click", () => show(name));
for (const name of ["none", "skip"]) $(name).addEventListener("click", () => give(name));
$("undo").addEventListener("click", undo);
$("confirm").addEventListener("click", confirm);
$("order").addEventListener("change", refresh);
$("class").addEventListener("change", () => {
  shownClass = $("class").value;
  unmarked.clear();
  refresh();
});
$("find").addEventListener("input", render);
$("find").addEventListener("keydown", (event) => {
  const first = [...$("classes").children].find((button) => !button.hidden);
  if (event.key === "Enter" && $("find").value.trim()) first ? first.click() : say("No class has these letters in its name.");
});
$("add").addEventListener("submit", (event) => {
  event.preventDefault();
  addClass($("new-class").value.trim());
  focusCurrent();
});
for (const link of $("exports").children) {
  link.href = `api/export?${new URLSearchParams({ format: link.dataset.format, token })}`;
  link.addEventListener("click", () => unsaved.size && say(`${plural(unsaved.size, "answer")} not saved yet: not in the file.`));
}
$("keys").checked = keysAct;
$("keys").addEventListener("change", switchKeys);
switchKeys();
retry();
