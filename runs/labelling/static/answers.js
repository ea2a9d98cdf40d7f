// What the page knows, and its questions to the server. An answer counts when the server has replied that it is on disk;
// until then it is kept here and in the storage of this tab, and sent again. All texts are set as text, never as HTML.

export const $ = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const count = (number) => number.toLocaleString("en");
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const say = (words) => set($("said"), words);

const RETRY = 4000; // milliseconds until the server is asked again that did not answer
const MOST = 500; // answers in a request
const STATES = { label: "labelled", none: "none", skip: "skipped", clear: "open" };

export const page = {
  state: null, // as the server sent it last
  view: "one",
  trouble: "", // why the server cannot be asked
  working: 0, // questions for which the pile is being labelled anew
  shownAt: -Infinity,
  render: () => {}, // replaced by the module that draws the page
  refresh: () => {}, // likewise: asks for the items of the grid
};
export const items = new Map(); // by id, as the server last sent them
export const unsaved = new Map(); // answers by id
export const conflicts = new Map(); // by id: what to say of an answer that another window was faster than
export const lists = { one: [], grid: [] }; // ids
export const current = { one: null, grid: null };
const undone = new Set(); // ids that were answered once, shown before the batch
const done = []; // { group, number } of saved answers that were given together, for undo

export function know(item) {
  items.set(item.id, item);
  return item.id;
}

export const isOpen = (id) => items.get(id).state === "open" && !unsaved.has(id);

export function inWords({ action, state, label }) {
  const wanted = action ? STATES[action] : state;
  return wanted === "labelled" ? label : { none: "none of these", skipped: "skipped", open: "open" }[wanted];
}

function remembered(key, make) {
  if (sessionStorage.getItem(key) === null) sessionStorage.setItem(key, make());
  return sessionStorage.getItem(key);
}

const given = new URL(location.href).searchParams.get("token");
if (given) sessionStorage.setItem("token", given);
export const token = sessionStorage.getItem("token") ?? "";
const bytes = () => [...crypto.getRandomValues(new Uint8Array(16))];
const client = remembered("client", () => bytes().map((byte) => byte.toString(16).padStart(2, "0")).join(""));

class Refused extends Error {}

export async function ask(path, body) {
  const options = { headers: { "X-Label-Token": token }, cache: "no-store" };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  if (body) options.headers["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(path, options);
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
    page.trouble = "";
  } catch (error) {
    if (error instanceof Refused) say(error.message);
    else {
      if (!page.trouble) setTimeout(retry, RETRY);
      page.trouble = error.message;
    }
  }
  page.render();
}

export function retry() {
  page.trouble = "";
  return inTurn(async () => {
    await send();
    apply(await ask("api/state"));
  });
}

// Labels the pile anew on the server, beside other questions, since that may take a while.
export async function labelAnew(act) {
  page.working += 1;
  page.render();
  await attempt(act);
  page.working -= 1;
  if (!page.trouble) nextBatch();
  page.render();
}

function nextBatch() {
  if (page.state?.stale && !page.working && !unsaved.size && !lists.one.some(isOpen)) {
    labelAnew(async () => apply(await ask("api/step", {})));
  }
}

function keep() {
  sessionStorage.setItem(`unsaved ${page.state.name}`, JSON.stringify([...unsaved.values()]));
}

window.addEventListener("beforeunload", (event) => unsaved.size && event.preventDefault());

// `given` has id, action and label of each answer.
export function answer(given) {
  const group = performance.timeOrigin + performance.now();
  for (const { id, action, label } of given) {
    unsaved.delete(id); // so that the newest answer is the last
    unsaved.set(id, { id, version: items.get(id).version, action, label, group });
    conflicts.delete(id);
  }
  keep();
  page.render();
  return inTurn(send);
}

async function send() {
  while (unsaved.size) {
    const sent = [...unsaved.values()].slice(0, MOST);
    const forget = () => sent.forEach((one) => unsaved.get(one.id) === one && unsaved.delete(one.id));
    let reply;
    try {
      reply = await ask("api/answers", { client, answers: sent.map(({ group, ...one }) => one) });
    } catch (error) {
      if (error instanceof Refused) {
        forget();
        keep();
      }
      throw error;
    }
    forget();
    for (const item of reply.items) {
      know(item);
      const mine = sent.find(({ id }) => id === item.id);
      if (unsaved.has(item.id)) unsaved.get(item.id).version = item.version;
      else if (reply.conflicts.includes(item.id)) {
        conflicts.set(item.id, `${item.title} was answered in another window: ${inWords(item)}. Your answer, ${inWords(mine)}, was not saved.`);
      }
    }
    keep();
    apply(reply.state);
    if (!reply.saved.length) continue;
    for (const { group } of sent.filter(({ id }) => reply.saved.includes(id))) {
      if (done.at(-1)?.group !== group) done.push({ group, number: 0 });
      done.at(-1).number += 1;
    }
    const one = sent[0].action === "clear" ? "Cleared" : `Saved as ${inWords(sent[0])}`;
    const words = sent.length > 1 ? `Saved ${plural(reply.saved.length, "answer")}` : one;
    say(`${words}, ${count(page.state.labelled)} of ${count(page.state.total)}.`);
  }
}

// Takes back what was saved together last.
export const undo = () => inTurn(async () => {
  await send();
  const reply = await ask("api/undo", { client, count: done.at(-1)?.number ?? 1 });
  done.pop();
  reply.items.map(know).forEach((id) => undone.add(id));
  apply(reply.state);
  const last = reply.items.at(-1);
  if (!last) return say("There is nothing to undo in this window.");
  if (page.view === "grid") page.refresh();
  else lookAt(last.id);
  return say(`Undone: ${last.title} is ${inWords(last)}.`);
});

export function lookAt(id) {
  undone.add(id);
  if (!lists.one.includes(id)) lists.one.unshift(id);
  page.view = "one";
  current.one = id;
  page.shownAt = -Infinity;
}

export const addClass = (name) => inTurn(async () => {
  const before = new Set(page.state.classes);
  apply(await ask("api/classes", { name }));
  $("new-class").value = "";
  const added = page.state.classes.find((other) => !before.has(other));
  const key = page.state.keys[added];
  say(added === undefined ? `The class ${name} exists.` : `Added the class ${added}.${key ? ` Its key is ${key}.` : ""}`);
});

export function apply(next) {
  if (page.state === null) {
    for (const one of JSON.parse(sessionStorage.getItem(`unsaved ${next.name}`) ?? "[]")) unsaved.set(one.id, one);
    if (unsaved.size) inTurn(send);
  } else if (next.version < page.state.version) return; // a reply that others have overtaken
  page.state = next;
  const ids = next.batch.map(know);
  const isNew = ids.some((id) => !lists.one.includes(id));
  if (isNew) undone.forEach((id) => isOpen(id) || undone.delete(id));
  if (isNew && current.one !== null && isOpen(current.one) && !ids.includes(current.one)) page.shownAt = performance.now();
  lists.one = [...[...undone].filter((id) => !ids.includes(id)), ...ids];
  const stays = lists.one.includes(current.one) && (!isNew || isOpen(current.one));
  if (!stays) current.one = lists.one.find(isOpen) ?? lists.one.at(-1) ?? null;
  nextBatch();
}
