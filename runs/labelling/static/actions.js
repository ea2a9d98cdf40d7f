// What a person does with the current item, by keys or buttons.

import { $, say } from "./dom.js";
import { focusCurrent, perRow } from "./items.js";
import { answers, current, guessOf, isOpen, items, lists, page } from "./model.js";
import { add, addAnswer, drain, withdraw } from "./saving.js";

const JUST_SHOWN = 350; // milliseconds in which a key does not answer an item that has just replaced another

export function give(action, label) {
  const id = current[page.view];
  if (id === null || !items.has(id)) return say("No item is chosen.");
  if (performance.now() - page.shownAt < JUST_SHOWN) {
    return say("The items have just changed. Look again, then answer.");
  }
  addAnswer(id, action, label);
  move(1, true);
  return drain();
}

export function undo() {
  const id = withdraw();
  if (id === null) {
    add({ kind: "undo" });
    return drain();
  }
  if (lists[page.view].includes(id)) current[page.view] = id;
  say("Undone: the answer was not saved yet.");
  page.render();
  return focusCurrent();
}

function accept() {
  const item = items.get(current[page.view]);
  if (!item) return undefined;
  const guess = guessOf(item);
  if (guess !== null) return give("label", guess);
  if (item.predicted === null) return say("There is no prediction for this item yet. Choose a class.");
  return say("Its prediction is hidden until you answer. Choose a class, or show predictions in Options.");
}

function move(steps, toOpen = false) {
  const { view } = page;
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
  page.render();
  focusCurrent();
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

export function onKey(event) {
  const { target } = event;
  const writes = target.closest("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && (writes || $("side").contains(target))) return focusCurrent();
  if (writes || event.altKey || event.metaKey || target.closest('[role="tab"]')) return undefined;
  const take = (act) => {
    event.preventDefault();
    return event.repeat && !event.key.startsWith("Arrow") ? undefined : act();
  };
  if (event.ctrlKey) return event.key.toLowerCase() === "z" && !event.shiftKey ? take(undo) : undefined;
  if (event.key === "Enter" || event.key === " ") {
    if (target.closest("button, summary, a, input")) return undefined;
    return take(event.key === "Enter" ? accept : () => give("skip"));
  }
  if (Object.hasOwn(MOVES, event.key)) return take(MOVES[event.key]);
  return page.keys ? onCharacter(event, take) : undefined;
}

// WCAG 2.1.4: speech input and shaking hands press such keys unwillingly, so that they can be switched off.
function onCharacter(event, take) {
  // On some keyboards the row of digits writes digits only with Shift.
  const key = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1] ?? event.key.toLowerCase();
  if (key === "0" || key === "-") return take(() => give("none"));
  const label = page.state?.classes.find((name) => page.state.keys[name] === key);
  if (label !== undefined) return take(() => give("label", label));
  if (key === "+") return take(() => $("new-class").focus());
  if (key === "/") return take(() => ($("find-line").hidden ? undefined : $("find").focus()));
  return undefined;
}
