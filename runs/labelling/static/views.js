// The four views: the batch, a class, items of no class, and suspicious labels.

import { $, count, plural, say, set } from "./dom.js";
import { focusCurrent } from "./items.js";
import { answers, current, isOpen, know, lists, page, totals, versions, VIEWS } from "./model.js";
import { asked, Refused } from "./server.js";
import { failed } from "./saving.js";

const PART = 48; // items in one request of a list
let newest = 0; // number of the newest request for a list

export function show(name) {
  page.view = name;
  page.shownAt = -Infinity;
  page.render();
  if (name !== "label") refresh();
}

function addressOf(view, offset) {
  if (view === "suspicious") return "api/suspicious";
  const query = new URLSearchParams({ offset, limit: PART });
  if (view === "class") query.set("class", page.currentClass);
  return `${view === "class" ? "api/items" : "api/misfits"}?${query}`;
}

export async function refresh(more = false) {
  const which = page.view;
  const number = (newest += 1);
  if (which === "class" && page.currentClass === null) return;
  try {
    const reply = await asked(addressOf(which, more ? lists[which].length : 0));
    if (number !== newest) return;
    const ids = reply.items.map(know);
    lists[which] = more ? [...new Set([...lists[which], ...ids])] : ids;
    if (!lists[which].includes(current[which])) current[which] = ids[0] ?? null;
    if (which in totals) {
      totals[which] = reply.total;
      versions[which] = page.state.predicted_version;
    }
    if (more && ids.length) current[which] = ids[0];
    page.render();
    if (more) focusCurrent();
  } catch (error) {
    if (error instanceof Refused) say(error.message);
    else failed(error);
  }
}

// What is in each view, and why it is empty.
const WORDS = {
  label(ids) {
    const left = ids.filter((id) => !isOpen(id)).length;
    return [ids.length ? `${left} of ${ids.length} in this batch answered.` : "", waitingForBatch(ids)];
  },
  class(ids) {
    const name = page.currentClass;
    if (name === null) return ["", "There are no classes yet."];
    if (name === "") return [`${plural(totals.class, "item")} answered as none of these.`, ""];
    const about = `${plural(totals.class, "item")} predicted as ${name}, least certain first.`;
    return [`${about}${newer("class", "the class")}`, ids.length ? "" : `No item is predicted as ${name}.`];
  },
  misfits(ids) {
    if (!ids.length) return ["", "Label items of at least two classes first."];
    const about = "Items without a label, those that fit the classes least first: they may belong to none of them.";
    return [`${about}${newer("misfits", "the view")}`, ""];
  },
  suspicious(ids) {
    if (!ids.length) return ["", "No label is suspicious."];
    const about = "Labels that the rest of the pile contradicts, most suspicious first.";
    return [`${about} Enter takes the class that the other labels suggest.`, ""];
  },
};

function newer(view, what) {
  const is = versions[view] !== null && versions[view] !== page.state.predicted_version;
  return is ? ` There are newer predictions: choose ${what} again to see them.` : "";
}

function waitingForBatch(ids) {
  const add = page.keys ? "press + or use the field New class" : "use the field New class";
  if (!page.state.classes.length) return `Add the names of your classes first: ${add}.`;
  if (ids.some(isOpen)) return "";
  if (answers.size) return page.trouble ? "" : "Saving your answers…";
  if (page.state.working) return "The pile is being labelled anew. The next batch follows.";
  return ids.length ? "Waiting for the next batch." : "There is nothing left to label.";
}

export function renderViews() {
  const { state, view } = page;
  for (const name of VIEWS) {
    const tab = $(`tab-${name}`);
    tab.setAttribute("aria-selected", name === view);
    tab.tabIndex = name === view ? 0 : -1;
  }
  $("view").setAttribute("aria-labelledby", `tab-${view}`);
  $("chosen").hidden = view !== "class" || !state.classes.length;
  const ids = lists[view];
  const [about, waiting] = WORDS[view](ids);
  const place = ids.indexOf(current[view]) + 1;
  set($("about"), place && about ? `${about} Item ${place} of ${ids.length}.` : about);
  set($("waiting"), waiting);
  $("more").hidden = !(view in totals) || ids.length >= totals[view];
  set($("suspicious"), state.suspicious ? ` (${count(state.suspicious)})` : "");
  set($("name"), state.name);
  document.title = `${state.labelled} of ${state.total} · ${state.name} · transduce label`;
  const counts = [`${count(state.labelled)} of ${count(state.total)} labelled`];
  if (state.none) counts.push(`${count(state.none)} none of these`);
  if (state.skipped) counts.push(`${count(state.skipped)} skipped`);
  if (state.working) counts.push("predicting…");
  set($("counts"), counts.join(" · "));
}
