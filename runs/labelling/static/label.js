// The page of `transduce label`. An answer counts when the server has replied that it is on disk; until then it is kept
// here and in the storage of this tab. All texts are set as text, so a name with markup is shown as it is written.

const $ = (id) => document.getElementById(id);
const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const percent = (value) => `${Math.round(100 * value)}\u00a0%`;
const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

const PAGE = 48; // items in one request of the view by class
const BUSY = 700, IDLE = 4000, RETRY = 4000; // milliseconds between questions to the server
const JUST_SHOWN = 350; // milliseconds in which a key does not answer an item that has just replaced another
const SHORT = 80; // characters of text that fit below a picture; with more, items are shown as rows
const PIXELS = { small: 224, medium: 448, large: 896 };

const remembered = (key, make) => {
  if (sessionStorage.getItem(key) === null) sessionStorage.setItem(key, make());
  return sessionStorage.getItem(key);
};
const address = new URL(location.href);
if (address.searchParams.has("token")) sessionStorage.setItem("token", address.searchParams.get("token"));
const token = sessionStorage.getItem("token") ?? "";
const client = remembered("client", () => {
  // crypto.randomUUID does not exist on pages that another computer serves without encryption.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
});

let state = null;
let view = "label";
let currentClass = null;
let predictedVersion = null; // of the list in the view by class
const items = new Map(); // by id, as the server last sent them
const answers = new Map(); // by id: answers that are not saved yet
const conflicts = new Map(); // by id: answers that another window was faster than
const lists = { label: [], class: [], suspicious: [] }; // ids
const current = { label: null, class: null, suspicious: null };
let totalOfClass = 0;
let undone = []; // ids that an undo brought back, shown before the batch
let trouble = ""; // why the server cannot be asked
let shownAt = -Infinity;
let refreshing = 0; // number of the newest request for a list

// --- the server

class Refused extends Error {}

async function ask(path, body) {
  const options = { headers: { "X-Label-Token": token }, cache: "no-store" };
  if (body) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let reply;
  try {
    reply = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer. If it has stopped, start transduce label again.");
  }
  if (reply.ok || reply.status === 409) return reply; // 409: answers that another window was faster than
  if (reply.status === 401 || reply.status === 403) {
    throw new Error("The server does not accept this page. Open the address that transduce label printed last.");
  }
  const known = await reply.json().catch(() => ({}));
  const words = `The server answers: ${known.error ?? `error ${reply.status}`}.`;
  throw reply.status >= 500 ? new Error(words) : new Refused(words);
}
const asked = async (path, body) => (await ask(path, body)).json();

const say = (words) => {
  $("said").textContent = words;
};

function know(item) {
  items.set(item.id, { ...items.get(item.id), ...item }); // the batch does not say what is suspicious
  return item.id;
}

function apply(next) {
  const first = state === null;
  if (first) restore(next.name);
  state = next;
  const ids = next.batch.map(know);
  const open = (id) => items.get(id).state === "open" || answers.has(id);
  const old = lists.label;
  const changed = ids.some((id) => !old.includes(id));
  if (changed) {
    undone = undone.filter(open);
    if (old.includes(current.label) && !ids.includes(current.label)) shownAt = performance.now();
  }
  lists.label = [...undone.filter((id) => !ids.includes(id)), ...ids];
  if (!lists.label.includes(current.label)) current.label = null;
  if (current.label === null || changed) {
    const stays = current.label !== null && isOpen(current.label);
    if (!stays) current.label = lists.label.find(isOpen) ?? null;
    if (view === "label" && (first || focusIsFree())) queueMicrotask(focusCurrent);
  }
}

const isOpen = (id) => items.get(id).state === "open" && !answers.has(id);
const focusIsFree = () => document.activeElement === document.body || $("items").contains(document.activeElement);

// --- what is sent, one after the other

const queue = [];
let sending = false;
let sent = 0; // so that an older reply to a poll does not undo what was seen since

const unsavedKey = () => `unsaved ${state.name}`;
function keep() {
  const left = [...answers.values()];
  if (left.length) sessionStorage.setItem(unsavedKey(), JSON.stringify(left));
  else sessionStorage.removeItem(unsavedKey());
}
function restore(name) {
  for (const answer of JSON.parse(sessionStorage.getItem(`unsaved ${name}`) ?? "[]")) {
    answers.set(answer.id, { ...answer, refused: "" });
    queue.push({ kind: "answer", answer: answers.get(answer.id) });
  }
}

async function drain() {
  if (sending) return;
  sending = true;
  try {
    while (queue.length) {
      const [job] = queue;
      sent += 1;
      try {
        await JOBS[job.kind](job);
        recovered();
      } catch (error) {
        if (!(error instanceof Refused)) {
          failed(error);
          return;
        }
        if (job.answer) job.answer.refused = error.message;
        else say(error.message);
      }
      queue.splice(queue.indexOf(job), 1);
      keep();
      render();
    }
  } finally {
    sending = false;
    render();
  }
}

function failed(error) {
  trouble = error.message;
  schedule();
  render();
}

function recovered() {
  if (!trouble) return;
  trouble = "";
  for (const node of nodes.values()) if (node.lost) showPicture(node);
}

const JOBS = {
  async answer(job) {
    const { answer } = job;
    const { id, version, action, label } = answer;
    const reply = await asked("api/answers", { client, answers: [{ id, version, action, label }] });
    const conflict = reply.conflicts[0];
    const wanted = STATES[action];
    const newest = answers.get(id) === answer;
    if (newest) answers.delete(id);
    // A reply that was lost leaves the answer saved here and unknown there: the same answer is no conflict.
    if (conflict && !(conflict.state === wanted && (conflict.label ?? null) === (label ?? null))) {
      know(conflict);
      if (newest) conflicts.set(id, { action, label });
      apply(reply.state);
      say(`Not saved: ${inWords(answer)}. In another window, ${conflict.title} became ${inWords(conflict)}.`);
      return;
    }
    const saved = conflict ?? { ...items.get(id), state: wanted, label: label ?? null, version: version + 1 };
    if (items.has(id)) know(saved);
    for (const other of queue) if (other.answer?.id === id) other.answer.version = saved.version;
    conflicts.delete(id);
    apply(reply.state);
    const words = action === "clear" ? "Cleared" : `Saved as ${inWords(answer)}`;
    say(`${words}, ${state.labelled.toLocaleString("en")} of ${state.total.toLocaleString("en")}.`);
  },
  async undo() {
    const reply = await asked("api/undo", { client });
    if (!reply.undone) {
      apply(reply.state);
      say("There is nothing to undo in this window.");
      return;
    }
    const { id } = reply.undone;
    know(reply.undone);
    conflicts.delete(id);
    if (!reply.state.batch.some((item) => item.id === id) && !undone.includes(id)) undone.unshift(id);
    apply(reply.state);
    const place = lists[view].includes(id) ? view : "label";
    current[place] = id;
    if (place !== view) show("label");
    focusCurrent();
    say(`Undone: ${reply.undone.title} is ${inWords(items.get(id))}.`);
  },
  async add(job) {
    const before = new Set(state.classes);
    apply(await asked("api/classes", { client, name: job.name }));
    const name = state.classes.find((other) => !before.has(other));
    $("new-class").value = "";
    if (name === undefined) return say(`The class ${job.name} exists.`);
    const key = state.keys[name];
    return say(`Added the class ${name}.${key ? ` Its key is ${key}.` : ""}`);
  },
};

const STATES = { label: "labelled", none: "none", skip: "skipped", clear: "open" };
function inWords({ action, state: known, label }) {
  const wanted = action ? STATES[action] : known;
  if (wanted === "labelled") return label;
  return { none: "none of these", skipped: "skipped", open: "open" }[wanted];
}

let polling = 0;
async function poll() {
  clearTimeout(polling);
  if (sending) return schedule();
  const before = sent;
  try {
    const next = await asked("api/state");
    if (before === sent && !sending) {
      recovered();
      apply(next);
      if (queue.length) drain();
    }
  } catch (error) {
    trouble = error.message;
  }
  render();
  return schedule();
}
function schedule() {
  clearTimeout(polling);
  const waits = state && (state.working || !lists.label.some(isOpen));
  polling = setTimeout(poll, trouble ? RETRY : waits ? BUSY : IDLE);
}

// --- what a person does

function give(action, label) {
  const id = current[view];
  if (id === null || !items.has(id)) return say("No item is chosen.");
  if (performance.now() - shownAt < JUST_SHOWN) return say("The items have just changed. Look again, then answer.");
  give.of(id, action, label);
  move(1, true);
  return drain();
}
give.of = (id, action, label) => {
  // An answer that waits is replaced. One that is on its way is followed by this one.
  const waiting = queue.findIndex((job, place) => job.answer?.id === id && !(sending && place === 0));
  if (waiting >= 0) queue.splice(waiting, 1);
  const answer = { id, version: items.get(id).version, action, label, refused: "" };
  answers.set(id, answer);
  conflicts.delete(id);
  queue.push({ kind: "answer", answer });
  keep();
  render();
  schedule();
};

function undo() {
  const last = queue.at(-1);
  if (last?.kind === "answer" && !(sending && queue.length === 1)) {
    queue.pop();
    answers.delete(last.answer.id);
    keep();
    if (lists[view].includes(last.answer.id)) current[view] = last.answer.id;
    say("Undone: the answer was not saved yet.");
    render();
    return focusCurrent();
  }
  queue.push({ kind: "undo" });
  return drain();
}

const guessOf = (item) => (view === "suspicious" ? item?.suggested : item?.predicted) ?? null;

function accept() {
  const item = items.get(current[view]);
  if (!item) return undefined;
  const guess = guessOf(item);
  if (guess === null) return say("There is no prediction for this item yet. Choose a class.");
  return give("label", guess);
}

function move(steps, toOpen = false) {
  const list = lists[view];
  const place = list.indexOf(current[view]);
  if (toOpen) {
    const waits = view === "label" ? isOpen : (id) => !answers.has(id);
    const after = [...list.slice(place + 1), ...(view === "label" ? list.slice(0, place) : [])];
    // In the other views one goes on to the next item, answered or not.
    current[view] = after.find(waits) ?? (view === "label" ? null : current[view]);
  } else {
    current[view] = list[Math.min(Math.max(place + steps, 0), list.length - 1)] ?? null;
  }
  render();
  focusCurrent();
}

function perRow() {
  const shown = [...$("items").children];
  const next = shown.findIndex((node) => node.offsetTop > shown[0].offsetTop);
  return next < 0 ? shown.length || 1 : next;
}

function focusCurrent() {
  const node = nodes.get(current[view]);
  const place = node?.li.isConnected ? node.li : $("items");
  place.focus({ preventScroll: true });
  if (node?.li.isConnected) node.li.scrollIntoView({ block: "nearest" });
}

const MOVES = {
  ArrowLeft: () => move(-1),
  ArrowRight: () => move(1),
  ArrowUp: () => move(-perRow()),
  ArrowDown: () => move(perRow()),
  Home: () => move(-Infinity),
  End: () => move(Infinity),
  Delete: () => give("clear"),
  Backspace: undo,
};

function onKey(event) {
  const { target } = event;
  const writes = target.closest("input, select, textarea");
  if (event.key === "Escape" && (writes || $("side").contains(target))) return focusCurrent();
  if (writes || event.altKey || event.metaKey || target.closest('[role="tab"]')) return undefined;
  const take = (act) => {
    event.preventDefault();
    return event.repeat && !event.key.startsWith("Arrow") ? undefined : act();
  };
  if (event.ctrlKey) return event.key.toLowerCase() === "z" && !event.shiftKey ? take(undo) : undefined;
  if (event.key === "Enter" || event.key === " ") {
    if (target.closest("button, summary, a")) return undefined;
    return take(event.key === "Enter" ? accept : () => give("skip"));
  }
  if (Object.hasOwn(MOVES, event.key)) return take(MOVES[event.key]);
  // On some keyboards the row of digits writes digits only with Shift.
  const key = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1] ?? event.key.toLowerCase();
  if (key === "0" || key === "-") return take(() => give("none"));
  const label = state?.classes.find((name) => state.keys[name] === key);
  if (label !== undefined) return take(() => give("label", label));
  if (key === "+") return take(() => $("new-class").focus());
  if (key === "/") return take(() => ($("find-line").hidden ? undefined : $("find").focus()));
  return undefined;
}

// --- the views

const VIEWS = ["label", "class", "suspicious"];

function show(name) {
  view = name;
  shownAt = -Infinity;
  render();
  if (name !== "label") refresh();
}

async function refresh(more = false) {
  const which = view;
  const number = (refreshing += 1);
  if (which === "class" && currentClass === null) return;
  const offset = more ? lists.class.length : 0;
  const query = new URLSearchParams({ class: currentClass ?? "", offset, limit: PAGE });
  try {
    const reply = await asked(which === "class" ? `api/items?${query}` : "api/suspicious");
    if (number !== refreshing) return;
    const ids = reply.items.map(know);
    lists[which] = more ? [...new Set([...lists[which], ...ids])] : ids;
    if (!lists[which].includes(current[which])) current[which] = ids[0] ?? null;
    if (which === "class") {
      totalOfClass = reply.total;
      predictedVersion = state.predicted_version;
    }
    if (more && ids.length) current[which] = ids[0];
    render();
    if (more) focusCurrent();
  } catch (error) {
    if (error instanceof Refused) say(error.message);
    else failed(error);
  }
}

const nodes = new Map(); // by id
let made = 0;

function showPicture(node) {
  const source = new URL(node.picture, location.href);
  source.searchParams.set("size", PIXELS[$("size").value]);
  source.searchParams.set("token", token);
  const image = element("img", { alt: "", draggable: false, loading: "lazy" });
  image.addEventListener("error", () => {
    node.lost = true;
    const lost = element("span", { className: "lost", textContent: "This picture cannot be shown." });
    node.shown.replaceWith(lost);
    node.shown = lost;
  });
  node.lost = false;
  image.src = source;
  node.shown.replaceWith(image);
  node.shown = image;
}

function nodeOf(id) {
  const item = items.get(id);
  let node = nodes.get(id);
  if (!node) {
    const li = element("li", { className: "item", id: `item-${(made += 1)}` });
    li.setAttribute("role", "option");
    node = { li, picture: item.picture, shown: element("span"), lost: false };
    const part = (name) => (node[name] = element("span", { className: name }));
    const words = element("div", { className: "words" }, part("title"));
    const columns = Object.entries(item.columns ?? {});
    if (columns.length) {
      const list = element("dl", { className: "columns" });
      for (const [name, text] of columns) {
        list.append(element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: text })));
      }
      words.append(list);
    }
    words.append(part("predicted"), part("answer"));
    li.append(node.shown, words);
    if (item.picture) showPicture(node);
    else node.shown.remove();
    li.addEventListener("click", () => {
      current[view] = id;
      shownAt = -Infinity;
      render();
      focusCurrent();
    });
    nodes.set(id, node);
  }
  return node;
}

function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function renderItem(id) {
  const node = nodeOf(id);
  const item = items.get(id);
  const answer = answers.get(id);
  const probability = item.probability === null ? "" : ` (${percent(item.probability)})`;
  let guess = item.predicted === null ? "" : `predicted ${item.predicted}${probability}`;
  if (view === "suspicious") guess = `without its label: ${item.suggested}`;
  let status = item.state === "open" ? "" : inWords(item);
  let kind = item.state;
  if (answer) {
    kind = answer.refused || trouble ? "unsaved" : "saving";
    status = `${kind === "unsaved" ? "not saved" : "saving"}: ${answer.action === "clear" ? "clear" : inWords(answer)}`;
  } else if (conflicts.has(id)) {
    status = `${inWords(item)}, given in another window`;
  }
  set(node.title, item.title);
  node.title.title = item.title;
  set(node.predicted, guess);
  set(node.answer, status);
  const chosen = current[view] === id;
  const answered = view === "label" && kind !== "open" ? "answered" : "";
  node.li.className = `item ${kind} ${answered}`;
  node.li.setAttribute("aria-selected", chosen);
  node.li.tabIndex = chosen ? 0 : -1;
  const columns = Object.entries(item.columns ?? {}).map(([name, text]) => `${name}: ${text}`);
  node.li.setAttribute("aria-label", [item.title, ...columns, guess, status].filter(Boolean).join(". "));
  return node.li;
}

function renderItems() {
  const list = $("items");
  const ids = lists[view];
  const wanted = ids.map(renderItem);
  const focused = document.activeElement;
  if (wanted.length !== list.children.length || wanted.some((li, place) => list.children[place] !== li)) {
    const had = list.contains(focused);
    list.replaceChildren(...wanted);
    if (had) focusCurrent();
  }
  const rows = ids.some((id) => !items.get(id).picture || Object.values(items.get(id).columns).join(" ").length > SHORT);
  list.className = `${$("size").value}${rows ? " rows" : ""}`;
  for (const id of nodes.keys()) if (nodes.size > 4 * PAGE && !kept(id)) nodes.delete(id);
}
const kept = (id) => VIEWS.some((name) => lists[name].includes(id));

function renderWords() {
  const ids = lists[view];
  const place = ids.indexOf(current[view]) + 1;
  let about = "";
  let waiting = "";
  if (view === "label") {
    const left = ids.filter((id) => !isOpen(id)).length;
    about = ids.length ? `${left} of ${ids.length} in this batch answered.` : "";
    if (!state.classes.length) waiting = "Add the names of your classes first: press + or use the field New class.";
    else if (!ids.some(isOpen)) {
      if (answers.size) waiting = trouble ? "" : "Saving your answers…";
      else if (state.working) waiting = "The pile is being labelled anew. The next batch follows.";
      else waiting = ids.length ? "Waiting for the next batch." : "There is nothing left to label.";
    }
  } else if (view === "class") {
    if (currentClass === null) waiting = "There are no classes yet.";
    else {
      about = `${plural(totalOfClass, "item")} predicted as ${currentClass}, least certain first.`;
      if (!ids.length) waiting = `No item is predicted as ${currentClass}.`;
      if (predictedVersion !== null && predictedVersion !== state.predicted_version) {
        about += " There are newer predictions: choose the class again to see them.";
      }
    }
  } else {
    about = ids.length ? "Labels that the rest of the pile contradicts, most suspicious first." : "";
    if (!ids.length) waiting = "No label is suspicious.";
    else about += " Enter takes the class that the other labels suggest.";
  }
  if (place && about) about += ` Item ${place} of ${ids.length}.`;
  set($("about"), about);
  set($("waiting"), waiting);
  $("more").hidden = view !== "class" || ids.length >= totalOfClass;
  const doubtful = state.suspicious ? ` (${state.suspicious.toLocaleString("en")})` : "";
  set($("suspicious"), doubtful);
  set($("name"), state.name);
  document.title = `${state.labelled} of ${state.total} · ${state.name} · transduce label`;
  const counts = [`${state.labelled.toLocaleString("en")} of ${state.total.toLocaleString("en")} labelled`];
  if (state.none) counts.push(`${state.none.toLocaleString("en")} none of these`);
  if (state.skipped) counts.push(`${state.skipped.toLocaleString("en")} skipped`);
  if (state.working) counts.push("predicting…");
  set($("counts"), counts.join(" · "));
}

const buttons = new Map(); // by class

function renderClasses() {
  const names = state.classes;
  if (names.length !== buttons.size || names.some((name) => !buttons.has(name))) {
    buttons.clear();
    for (const name of names) {
      const button = element("button", { type: "button", title: name });
      const key = state.keys[name];
      if (key) {
        const shown = element("kbd", { textContent: key });
        button.setAttribute("aria-keyshortcuts", key);
        button.append(shown, " ");
      }
      button.append(element("span", { textContent: name }));
      button.addEventListener("click", () => {
        give("label", name);
        $("find").value = "";
        render();
      });
      buttons.set(name, button);
    }
    $("classes").replaceChildren(...buttons.values());
    $("class").replaceChildren(...names.map((name) => element("option", { value: name, textContent: name })));
    $("find-line").hidden = names.every((name) => state.keys[name]);
    currentClass ??= names[0] ?? null;
    $("class").value = currentClass ?? "";
  }
  const item = items.get(current[view]);
  const answer = item && answers.get(item.id);
  const label = answer ? answer.label : item?.state === "labelled" ? item.label : null;
  const searched = $("find").value.trim().toLowerCase();
  for (const [name, button] of buttons) {
    button.setAttribute("aria-pressed", name === label);
    button.classList.toggle("guess", name === guessOf(item));
    button.hidden = !name.toLowerCase().includes(searched);
  }
  const guess = buttons.get(guessOf(item));
  if (guess !== renderClasses.guess && guess) $("classes").scrollTop = guess.offsetTop - $("classes").clientHeight / 2;
  renderClasses.guess = guess;
}

function renderNotices() {
  const list = [];
  const button = (text, act) => {
    const made = element("button", { type: "button", textContent: text });
    made.addEventListener("click", act);
    return made;
  };
  const refused = [...answers.values()].filter((answer) => answer.refused);
  const waiting = answers.size - refused.length;
  if (trouble) {
    const unsaved = waiting ? ` ${plural(waiting, "answer")} not saved yet: kept in this page.` : "";
    list.push([`${trouble}${unsaved}`, null, button("Try again", () => poll())]);
  } else if (state?.problem) {
    list.push([`The pile could not be labelled anew: ${state.problem}`, null]);
  }
  for (const answer of refused) {
    const again = () => {
      answer.refused = "";
      queue.push({ kind: "answer", answer });
      drain();
    };
    const drop = () => {
      answers.delete(answer.id);
      keep();
      render();
    };
    const title = items.get(answer.id)?.title ?? answer.id;
    const words = `Not saved: ${title} as ${inWords(answer)}. ${answer.refused}`;
    list.push([words, answer.id, button("Try again", again), button("Drop the answer", drop)]);
  }
  for (const [id, { action, label }] of conflicts) {
    const item = items.get(id);
    const theirs = inWords(item);
    const mine = action === "clear" ? "open" : inWords({ action, label });
    const keepTheirs = () => {
      conflicts.delete(id);
      render();
      focusCurrent();
    };
    const takeMine = () => {
      give.of(id, action, label);
      drain();
      focusCurrent();
    };
    const words = `${item.title} was answered in another window: ${theirs}. Your answer, ${mine}, was not saved.`;
    list.push([words, id, button(`Keep ${theirs}`, keepTheirs), button(`Change to ${mine}`, takeMine)]);
  }
  const text = JSON.stringify(list.map(([words]) => words));
  if (renderNotices.text === text) return;
  renderNotices.text = text;
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

function shape(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function renderAccuracy() {
  const { accuracy, to_target: target } = state;
  const text = JSON.stringify([accuracy, target]);
  if (renderAccuracy.text === text) return;
  renderAccuracy.text = text;
  $("target").textContent = "";
  $("curve").replaceChildren();
  if (!accuracy) {
    $("estimate").textContent =
      "No estimate yet. It comes from labels that you give after an item was predicted: go on labelling.";
    return;
  }
  const interval = ({ low, high }) => `${Math.round(100 * low)} to ${percent(high)}`;
  const words = `${percent(accuracy.estimate)} of the predictions are correct (95\u00a0% interval ${interval(accuracy)}),`;
  $("estimate").textContent = `${words} from ${plural(accuracy.audited, "label")} given after the prediction.`;
  if (target) {
    const goal = percent(target.target);
    $("target").textContent =
      target.more > 0 ? `About ${plural(target.more, "more label")} to ${goal}.` : `The estimate has reached ${goal}.`;
  }
  const points = accuracy.curve;
  if (!points.length) return;
  const most = Math.max(...points.map((point) => point.labels), 1);
  const x = (point) => (44 + (266 * point.labels) / most).toFixed(1);
  const y = (value) => (150 - 140 * value).toFixed(1);
  const svg = shape("svg", { viewBox: "0 0 320 180", role: "img" });
  svg.setAttribute("aria-label", `Estimated accuracy by number of labels. ${words.slice(0, -1)}.`);
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(shape("line", { class: "grid", x1: 44, x2: 310, y1: y(value), y2: y(value) }));
    svg.append(shape("text", { x: 38, y: Number(y(value)) + 4, "text-anchor": "end" }, percent(value)));
  }
  const upper = points.map((point) => `${x(point)},${y(point.high)}`);
  const lower = points.map((point) => `${x(point)},${y(point.low)}`).reverse();
  const last = points.at(-1);
  svg.append(
    shape("polygon", { class: "band", points: [...upper, ...lower].join(" ") }),
    shape("polyline", { points: points.map((point) => `${x(point)},${y(point.estimate)}`).join(" ") }),
    shape("line", { class: "now", x1: x(last), x2: x(last), y1: y(last.low), y2: y(last.high) }),
    shape("circle", { class: "dot", cx: x(last), cy: y(last.estimate), r: 4 }),
    shape("text", { x: 44, y: 168, "text-anchor": "start" }, "0"),
    shape("text", { x: 310, y: 168, "text-anchor": "end" }, `${most.toLocaleString("en")} labels`),
  );
  const table = element("table", {}, element("caption", { textContent: "Estimated accuracy by number of labels" }));
  const cell = (tag, content, scope) => element(tag, { textContent: content, ...(scope && { scope }) });
  const heads = ["labels", "estimate", "95 % interval"].map((name) => cell("th", name, "col"));
  const body = element("tbody");
  for (const point of points) {
    const cells = [cell("td", percent(point.estimate)), cell("td", interval(point))];
    body.append(element("tr", {}, cell("th", point.labels.toLocaleString("en"), "row"), ...cells));
  }
  table.append(element("thead", {}, element("tr", {}, ...heads)), body);
  $("curve").append(svg, element("details", {}, element("summary", { textContent: "As a table" }), table));
}

function render() {
  if (state) {
    for (const name of VIEWS) {
      const tab = $(`tab-${name}`);
      tab.setAttribute("aria-selected", name === view);
      tab.tabIndex = name === view ? 0 : -1;
    }
    $("view").setAttribute("aria-labelledby", `tab-${view}`);
    $("chosen").hidden = view !== "class" || !state.classes.length;
    renderClasses();
    renderItems();
    renderWords();
    renderAccuracy();
  }
  renderNotices();
}

async function download(format) {
  if (answers.size) say(`${plural(answers.size, "answer")} not saved yet: not in the file.`);
  try {
    const reply = await ask(`api/export?${new URLSearchParams({ format })}`);
    const header = reply.headers.get("Content-Disposition");
    const [, quoted, encoded] = /filename(?:="([^"]+)"|\*=utf-8''([^;]+))/i.exec(header) ?? [];
    const name = quoted ?? (encoded ? decodeURIComponent(encoded) : `labels.${format}`);
    const link = element("a", { href: URL.createObjectURL(await reply.blob()), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    say(`Exported ${link.download}.`);
  } catch (error) {
    say(error.message);
  }
}

document.addEventListener("keydown", onKey);
window.addEventListener("beforeunload", (event) => answers.size && event.preventDefault());
document.addEventListener("visibilitychange", () => document.hidden || poll());
for (const name of VIEWS) {
  $(`tab-${name}`).addEventListener("click", () => show(name));
  $(`tab-${name}`).addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const next = VIEWS[(VIEWS.indexOf(name) + step + VIEWS.length) % VIEWS.length];
    show(next);
    $(`tab-${next}`).focus();
  });
}
$("none").addEventListener("click", () => give("none"));
$("skip").addEventListener("click", () => give("skip"));
$("undo").addEventListener("click", undo);
$("more").addEventListener("click", () => refresh(true));
$("class").addEventListener("change", () => {
  currentClass = $("class").value;
  lists.class = [];
  refresh();
});
$("size").value = remembered("size", () => "medium");
$("size").addEventListener("change", () => {
  sessionStorage.setItem("size", $("size").value);
  for (const node of nodes.values()) if (node.picture) showPicture(node);
  render();
});
$("find").addEventListener("input", render);
$("find").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const [first] = [...buttons.values()].filter((button) => !button.hidden);
  if (first && $("find").value.trim()) first.click();
  else say("No class has these letters in its name.");
});
$("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("new-class").value.trim();
  if (!name) return;
  queue.push({ kind: "add", name });
  focusCurrent();
  drain();
});
for (const button of $("exports").children) button.addEventListener("click", () => download(button.dataset.format));
poll();
