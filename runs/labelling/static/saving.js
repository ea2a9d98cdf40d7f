// Answers on their way to the server, one request after the other, and the state that comes back. An answer counts when
// the server has replied that it is on disk; until then it is kept here and in the storage of this tab.

import { $, answers, asked, client, conflicts, count, current, inWords, isOpen, items, know, lists, page } from "./model.js";
import { Refused, say, STATES } from "./model.js";

const BUSY = 700, IDLE = 4000, RETRY = 4000; // milliseconds between questions to the server

const queue = []; // of { answers }, { name } of a new class, or { undo: number of answers }
const done = []; // numbers of answers that were saved together, for undo
let sending = false;
let sent = 0; // so that an older reply to a poll does not undo what was seen since
let polling = 0;

// Answers that wait are replaced. One that is on its way is followed by the new one.
export function addAnswers(given) {
  const made = given.map(({ id, action, label }) => ({ id, action, label, version: items.get(id).version }));
  for (const job of queue.slice(sending ? 1 : 0)) {
    if (job.answers) job.answers = job.answers.filter(({ id }) => !made.some((answer) => answer.id === id));
  }
  for (const answer of made) {
    answers.set(answer.id, answer);
    conflicts.delete(answer.id);
  }
  queue.push({ answers: made });
  keep();
  page.render();
  drain();
}

function forget(job) {
  for (const answer of job.answers ?? []) if (answers.get(answer.id) === answer) answers.delete(answer.id);
}

export function addClass(name) {
  queue.push({ name });
  drain();
}

// Takes back the last answers: those that are not on their way yet at once, others by the server.
export function undo() {
  const last = queue.at(-1);
  if (last?.answers?.length && !(sending && queue.length === 1)) {
    forget(queue.pop());
    say("Undone: it was not saved yet.");
    keep();
    page.render();
    return;
  }
  queue.push({ undo: done.pop() ?? 1 });
  drain();
}

// Kept in the storage of this tab, so that they outlive the server and the page.
function keep() {
  sessionStorage.setItem(`unsaved ${page.state.name}`, JSON.stringify([...answers.values()]));
}

function restore() {
  const kept = JSON.parse(sessionStorage.getItem(`unsaved ${page.state.name}`) ?? "[]");
  for (const answer of kept) answers.set(answer.id, answer);
  if (kept.length) queue.push({ answers: kept });
}

window.addEventListener("beforeunload", (event) => answers.size && event.preventDefault());

async function drain() {
  if (sending) return;
  sending = true;
  try {
    while (queue.length) {
      const [job] = queue;
      sent += 1;
      try {
        await (job.answers ? sendAnswers(job) : job.name ? sendClass(job) : sendUndo(job));
        page.trouble = "";
      } catch (error) {
        if (!(error instanceof Refused)) {
          page.trouble = error.message;
          return;
        }
        forget(job);
        say(error.message);
      }
      queue.splice(queue.indexOf(job), 1);
      keep();
      page.render();
    }
  } finally {
    sending = false;
    page.render();
    schedule();
  }
}

async function sendAnswers(job) {
  if (!job.answers.length) return;
  const wanted = job.answers;
  const body = wanted.map(({ id, version, action, label }) => ({ id, version, action, label }));
  const reply = await asked("api/answers", { client, answers: body });
  const refused = new Map(reply.conflicts.map((item) => [item.id, item]));
  for (const answer of wanted) {
    const { id, action, label } = answer;
    const theirs = refused.get(id);
    const state = STATES[action];
    if (answers.get(id) === answer) answers.delete(id);
    // A reply that was lost leaves the answer saved there and unknown here: the same answer is no conflict.
    if (theirs && !(theirs.state === state && (theirs.label ?? null) === (label ?? null))) {
      know(theirs);
      if (!answers.has(id)) conflicts.set(id, { action, label });
      continue;
    }
    const version = theirs?.version ?? answer.version + 1;
    know({ ...items.get(id), id, state, label: label ?? null, version });
    for (const later of queue.slice(1).flatMap((other) => other.answers ?? [])) if (later.id === id) later.version = version;
    conflicts.delete(id);
  }
  done.push(reply.saved.length);
  apply(reply.state);
  const words = wanted.length > 1 ? `Saved ${count(reply.saved.length)} answers` : inWordsSaved(wanted[0]);
  if (reply.saved.length) say(`${words}, ${count(page.state.labelled)} of ${count(page.state.total)}.`);
  else say(`Not saved: ${inWords(wanted[0])}. It was answered in another window.`);
}

const inWordsSaved = (answer) => (answer.action === "clear" ? "Cleared" : `Saved as ${inWords(answer)}`);

async function sendUndo(job) {
  let undone = null;
  for (let left = job.undo; left; left -= 1) {
    const reply = await asked("api/undo", { client });
    if (reply.undone) {
      undone = reply.undone;
      const id = know(undone);
      conflicts.delete(id);
      if (!reply.state.batch.some((item) => item.id === id) && !page.undone.includes(id)) page.undone.unshift(id);
    }
    apply(reply.state);
    job.undo -= 1;
  }
  if (!undone) return say("There is nothing to undo in this window.");
  if (!lists[page.view].includes(undone.id)) page.view = "one";
  current[page.view] = undone.id;
  page.shownAt = -Infinity;
  page.render();
  return say(`Undone: ${undone.title} is ${inWords(items.get(undone.id))}.`);
}

async function sendClass(job) {
  const before = new Set(page.state.classes);
  apply(await asked("api/classes", { client, name: job.name }));
  const name = page.state.classes.find((other) => !before.has(other));
  $("new-class").value = "";
  if (name === undefined) return say(`The class ${job.name} exists.`);
  const key = page.keys && page.state.keys[name];
  return say(`Added the class ${name}.${key ? ` Its key is ${key}.` : ""}`);
}

function apply(next) {
  const first = page.state === null;
  page.state = next;
  if (first) restore();
  const ids = next.batch.map(know);
  const isNew = ids.some((id) => !lists.one.includes(id));
  if (isNew) page.undone = page.undone.filter((id) => items.get(id).state === "open" || answers.has(id));
  const replaced = current.one !== null && !ids.includes(current.one) && isOpen(current.one);
  if (isNew && replaced) page.shownAt = performance.now();
  lists.one = [...page.undone.filter((id) => !ids.includes(id)), ...ids];
  if (!lists.one.includes(current.one) || isNew) {
    const stays = lists.one.includes(current.one) && isOpen(current.one);
    if (!stays) current.one = lists.one.find(isOpen) ?? lists.one.at(-1) ?? null;
  }
}

export async function poll() {
  clearTimeout(polling);
  const before = sent;
  if (!sending) {
    try {
      const next = await asked("api/state");
      if (before === sent && !sending) {
        page.trouble = "";
        apply(next);
      }
    } catch (error) {
      page.trouble = error.message;
    }
    page.render();
    if (queue.length && !page.trouble) drain();
  }
  schedule();
}

function schedule() {
  clearTimeout(polling);
  const waits = page.state && (page.state.working || !lists.one.some(isOpen));
  polling = setTimeout(poll, page.trouble ? RETRY : waits ? BUSY : IDLE);
}
