// Parts of the document, and words. All texts are set as text, so a name with markup is shown as it is written.

export const $ = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function shape(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function table(caption, heads, rows) {
  const cell = (tag, content, scope) => element(tag, { textContent: content, ...(scope && { scope }) });
  const body = rows.map(([first, ...others]) =>
    element("tr", {}, cell("th", first, "row"), ...others.map((text) => cell("td", text))),
  );
  const head = element("tr", {}, ...heads.map((name) => cell("th", name, "col")));
  const title = element("caption", { textContent: caption });
  return element("table", {}, title, element("thead", {}, head), element("tbody", {}, ...body));
}

export const count = (number) => number.toLocaleString("en");
export const percent = (value) => `${Math.round(100 * value)}\u00a0%`;
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export const say = (words) => {
  $("said").textContent = words;
};

export function remembered(key, make) {
  if (sessionStorage.getItem(key) === null) sessionStorage.setItem(key, make());
  return sessionStorage.getItem(key);
}
