// What the page knows, words, and questions to the server. All texts are set as text, so markup in a name is shown.

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
export const percent = (value) => `${Math.round(100 * value)}\u00a0%`;
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const say = (words) => set($("said"), words);
export const STATES = { label: "labelled", none: "none", skip: "skipped", clear: "open" };

export const page = {
  state: null, // as the server sent it last
  view: "one",
  undone: [], // ids that an undo brought back, shown before the batch
  trouble: "", // why the server cannot be asked
  shownAt: -Infinity,
  keys: localStorage.getItem("keys") !== "off", // whether keys of a single character act
  render: () => {}, // replaced by the module that draws all parts
};
export const items = new Map(); // by id, as the server last sent them
export const answers = new Map(); // by id: answers that are not saved yet
export const conflicts = new Map(); // by id: answers that another window was faster than
export const lists = { one: [], grid: [] }; // ids
export const current = { one: null, grid: null };

export function know(item) {
  items.set(item.id, { ...items.get(item.id), ...item });
  return item.id;
}

export const isOpen = (id) => items.get(id).state === "open" && !answers.has(id);

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
export const client = remembered("client", () => bytes().map((byte) => byte.toString(16).padStart(2, "0")).join(""));

export class Refused extends Error {}

export async function ask(path, body) {
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

export const asked = async (path, body) => (await ask(path, body)).json();
