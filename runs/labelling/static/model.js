// What the page knows: the state that the server sent last, and what this window adds to it.

export const VIEWS = ["label", "class", "misfits", "suspicious"];
export const STATES = { label: "labelled", none: "none", skip: "skipped", clear: "open" };

export const page = {
  state: null,
  view: "label",
  currentClass: null,
  undone: [], // ids that an undo brought back, shown before the batch
  trouble: "", // why the server cannot be asked
  shownAt: -Infinity,
  keys: localStorage.getItem("keys") !== "off", // whether keys of a single character act
  predictions: sessionStorage.getItem("predictions") === "shown", // whether they are shown before the answer
  render: () => {}, // replaced by the module that draws all parts
};

export const items = new Map(); // by id, as the server last sent them
export const answers = new Map(); // by id: answers that are not saved yet
export const conflicts = new Map(); // by id: answers that another window was faster than
export const lists = { label: [], class: [], misfits: [], suspicious: [] }; // ids
export const totals = { class: 0, misfits: 0 }; // of lists that the server sends in parts
export const versions = { class: null, misfits: null }; // of the predictions in these lists
export const current = { label: null, class: null, misfits: null, suspicious: null };

export function know(item) {
  items.set(item.id, { ...items.get(item.id), ...item }); // the batch does not say what is suspicious
  return item.id;
}

export const isOpen = (id) => items.get(id).state === "open" && !answers.has(id);

// Who sees the prediction first agrees with it too easily, and the audit would be biased.
const isHidden = (item) => page.view === "label" && item.state === "open" && !page.predictions;

export function guessOf(item) {
  if (!item || isHidden(item)) return null;
  return (page.view === "suspicious" ? item.suggested : item.predicted) ?? null;
}

export function inWords({ action, state, label }) {
  const wanted = action ? STATES[action] : state;
  if (wanted === "labelled") return label;
  return { none: "none of these", skipped: "skipped", open: "open" }[wanted];
}
