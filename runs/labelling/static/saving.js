// Answers on their way to the server, one after the other, and the state that comes back. An answer counts when the
// server has replied that it is on disk; until then it is kept here and in the storage of this tab.

import { $, count, say } from "./dom.js";
import { focusCurrent, nodes, showPicture } from "./items.js";
import { answers, conflicts, current, inWords, isOpen, items, know, lists, page, STATES } from "./model.js";
import { asked, client, Refused } from "./server.js";

const BUSY = 700, IDLE = 4000, RETRY = 4000; // milliseconds between questions to the server

const queue = [];
let sending = false;
let sent = 0; // so that an older reply to a poll does not undo what was seen since
let polling = 0;

export function add(job) {
  queue.push(job);
}

// An answer that waits is replaced. One that is on its way is followed by this one.
export function addAnswer(id, action, label) {
  const waiting = queue.findIndex((job, place) => job.answer?.id === id && !(sending && place === 0));
  if (waiting >= 0) queue.splice(waiting, 1);
  const answer = { id, version: items.get(id).version, action, label, refused: "" };
  answers.set(id, answer);
  conflicts.delete(id);
  add({ kind: "answer", answer });
  keep();
  page.render();
  schedule();
}

// Takes back the last answer if it is not on its way yet; its item, or null.
export function withdraw() {
  const last = queue.at(-1);
  if (last?.kind !== "answer" || (sending && queue.length === 1)) return null;
  queue.pop();
  drop(last.answer);
  return last.answer.id;
}

export function sendAgain(answer) {
  answer.refused = "";
  add({ kind: "answer", answer });
  drain();
}

export function drop(answer) {
  answers.delete(answer.id);
  keep();
}

function keep() {
  const key = `unsaved ${page.state.name}`;
  const left = [...answers.values()];
  if (left.length) sessionStorage.setItem(key, JSON.stringify(left));
  else sessionStorage.removeItem(key);
}

function restore(name) {
  for (const answer of JSON.parse(sessionStorage.getItem(`unsaved ${name}`) ?? "[]")) {
    answers.set(answer.id, { ...answer, refused: "" });
    add({ kind: "answer", answer: answers.get(answer.id) });
  }
}

export async function drain() {
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
      page.render();
    }
  } finally {
    sending = false;
    page.render();
  }
}

export function failed(error) {
  page.trouble = error.message;
  schedule();
  page.render();
}

function recovered() {
  if (!page.trouble) return;
  page.trouble = "";
  for (const node of nodes.values()) if (node.lost) showPicture(node);
}

const focusIsFree = () => document.activeElement === document.body || $("items").contains(document.activeElement);

function apply(next) {
  const first = page.state === null;
  if (first) restore(next.name);
  page.state = next;
  const ids = next.batch.map(know);
  const open = (id) => items.get(id).state === "open" || answers.has(id);
  const old = lists.label;
  const changed = ids.some((id) => !old.includes(id));
  if (changed) {
    page.undone = page.undone.filter(open);
    if (old.includes(current.label) && !ids.includes(current.label)) page.shownAt = performance.now();
  }
  lists.label = [...page.undone.filter((id) => !ids.includes(id)), ...ids];
  if (!lists.label.includes(current.label)) current.label = null;
  if (current.label === null || changed) {
    const stays = current.label !== null && isOpen(current.label);
    if (!stays) current.label = lists.label.find(isOpen) ?? null;
    if (page.view === "label" && (first || focusIsFree())) queueMicrotask(focusCurrent);
  }
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
    say(`${words}, ${count(page.state.labelled)} of ${count(page.state.total)}.`);
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
    if (!reply.state.batch.some((item) => item.id === id) && !page.undone.includes(id)) page.undone.unshift(id);
    apply(reply.state);
    if (!lists[page.view].includes(id)) page.view = "label";
    current[page.view] = id;
    page.shownAt = -Infinity;
    page.render();
    focusCurrent();
    say(`Undone: ${reply.undone.title} is ${inWords(items.get(id))}.`);
  },
  async add(job) {
    const before = new Set(page.state.classes);
    apply(await asked("api/classes", { client, name: job.name }));
    const name = page.state.classes.find((other) => !before.has(other));
    $("new-class").value = "";
    if (name === undefined) return say(`The class ${job.name} exists.`);
    const key = page.keys && page.state.keys[name];
    return say(`Added the class ${name}.${key ? ` Its key is ${key}.` : ""}`);
  },
};

export async function poll() {
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
    page.trouble = error.message;
  }
  page.render();
  return schedule();
}

function schedule() {
  clearTimeout(polling);
  const waits = page.state && (page.state.working || !lists.label.some(isOpen));
  polling = setTimeout(poll, page.trouble ? RETRY : waits ? BUSY : IDLE);
}
