// The classes: their buttons, the choice of one, and the number of items of each.

import { give } from "./actions.js";
import { $, count, element, table } from "./dom.js";
import { answers, current, guessOf, items, page } from "./model.js";

const buttons = new Map(); // by class
let made = ""; // for which the buttons were made
let guessed = null;
let counted = "";

function makeButtons() {
  const { classes, keys } = page.state;
  const text = JSON.stringify([classes, page.keys]);
  if (text === made) return;
  made = text;
  buttons.clear();
  for (const name of classes) {
    const button = element("button", { type: "button", title: name });
    const key = page.keys && keys[name];
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
    buttons.set(name, button);
  }
  $("classes").replaceChildren(...buttons.values());
  const options = classes.map((name) => element("option", { value: name, textContent: name }));
  $("class").replaceChildren(...options, element("option", { value: "", textContent: "(none of these)" }));
  $("find-line").hidden = classes.every((name) => keys[name]);
  page.currentClass ??= classes[0] ?? null;
  $("class").value = page.currentClass ?? "";
}

export function renderClasses() {
  makeButtons();
  const item = items.get(current[page.view]);
  const answer = item && answers.get(item.id);
  const label = answer ? answer.label : item?.state === "labelled" ? item.label : null;
  const searched = $("find").value.trim().toLowerCase();
  for (const [name, button] of buttons) {
    button.setAttribute("aria-pressed", name === label);
    button.classList.toggle("guess", name === guessOf(item));
    button.hidden = !name.toLowerCase().includes(searched);
  }
  const guess = buttons.get(guessOf(item));
  if (guess !== guessed && guess) $("classes").scrollTop = guess.offsetTop - $("classes").clientHeight / 2;
  guessed = guess;
  renderCounts();
}

function renderCounts() {
  const rows = page.state.by_class.map(({ name, labelled, predicted }) => [name, count(labelled), count(predicted)]);
  const text = JSON.stringify(rows);
  if (text === counted) return;
  counted = text;
  $("by-class").hidden = !rows.length;
  const shown = table("Items with a label, and predictions for the others", ["class", "labelled", "predicted"], rows);
  $("counts-by-class").replaceChildren(shown);
}

// The first class that the search finds.
export const firstFound = () => [...buttons.values()].find((button) => !button.hidden);
