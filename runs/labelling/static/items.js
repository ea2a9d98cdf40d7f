// The list of items of the present view.

import { $, element, percent, set } from "./dom.js";
import { answers, conflicts, current, guessOf, inWords, items, lists, page, VIEWS } from "./model.js";
import { token } from "./server.js";

const SHORT = 80; // characters of text that fit below a picture; with more, items are shown as rows
const KEPT = 192; // items that are kept though no list has them
const PIXELS = { small: 224, medium: 448, large: 896 };

export const nodes = new Map(); // by id
let made = 0;

export function showPicture(node) {
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
      current[page.view] = id;
      page.shownAt = -Infinity;
      page.render();
      focusCurrent();
    });
    nodes.set(id, node);
  }
  return node;
}

function guessInWords(item) {
  const guess = guessOf(item);
  if (guess === null) return "";
  if (page.view === "suspicious") return `without its label: ${guess}`;
  const words = `predicted ${guess}${item.probability === null ? "" : ` (${percent(item.probability)})`}`;
  return page.view === "misfits" ? `${words}, fits worse than ${percent(1 - item.p_value)} of the labels` : words;
}

function renderItem(id) {
  const node = nodeOf(id);
  const item = items.get(id);
  const answer = answers.get(id);
  const guess = guessInWords(item);
  let status = item.state === "open" ? "" : inWords(item);
  let kind = item.state;
  if (answer) {
    kind = answer.refused || page.trouble ? "unsaved" : "saving";
    status = `${kind === "unsaved" ? "not saved" : "saving"}: ${answer.action === "clear" ? "clear" : inWords(answer)}`;
  } else if (conflicts.has(id)) {
    status = `${inWords(item)}, given in another window`;
  }
  set(node.title, item.title);
  node.title.title = item.title;
  set(node.predicted, guess);
  set(node.answer, status);
  const chosen = current[page.view] === id;
  const answered = page.view === "label" && kind !== "open" ? "answered" : "";
  node.li.className = `item ${kind} ${answered}`;
  node.li.setAttribute("aria-selected", chosen);
  node.li.tabIndex = chosen ? 0 : -1;
  const columns = Object.entries(item.columns ?? {}).map(([name, text]) => `${name}: ${text}`);
  node.li.setAttribute("aria-label", [item.title, ...columns, guess, status].filter(Boolean).join(". "));
  return node.li;
}

export function renderItems() {
  const list = $("items");
  const ids = lists[page.view];
  const wanted = ids.map(renderItem);
  if (wanted.length !== list.children.length || wanted.some((li, place) => list.children[place] !== li)) {
    const had = list.contains(document.activeElement);
    list.replaceChildren(...wanted);
    if (had) focusCurrent();
  }
  const rows = ids.some((id) => !items.get(id).picture || Object.values(items.get(id).columns).join(" ").length > SHORT);
  list.className = `${$("size").value}${rows ? " rows" : ""}`;
  for (const id of nodes.keys()) {
    if (nodes.size > KEPT && !VIEWS.some((name) => lists[name].includes(id))) nodes.delete(id);
  }
}

export function focusCurrent() {
  const node = nodes.get(current[page.view]);
  const place = node?.li.isConnected ? node.li : $("items");
  place.focus({ preventScroll: true });
  if (node?.li.isConnected) node.li.scrollIntoView({ block: "nearest" });
}

export function perRow() {
  const shown = [...$("items").children];
  const next = shown.findIndex((node) => node.offsetTop > shown[0].offsetTop);
  return next < 0 ? shown.length || 1 : next;
}
