// The page of `transduce label`: draws all parts, and connects what can be pressed.

import { renderAccuracy } from "./accuracy.js";
import { give, onKey, undo } from "./actions.js";
import { firstFound, renderClasses } from "./classes.js";
import { $, element, plural, remembered, say } from "./dom.js";
import { focusCurrent, nodes, renderItems, showPicture } from "./items.js";
import { answers, lists, page, VIEWS } from "./model.js";
import { renderNotices } from "./notices.js";
import { add, drain, poll } from "./saving.js";
import { ask } from "./server.js";
import { refresh, renderViews, show } from "./views.js";

page.render = () => {
  if (page.state) {
    renderClasses();
    renderItems();
    renderViews();
    renderAccuracy();
  }
  renderNotices();
};

async function download(format) {
  if (answers.size) say(`${plural(answers.size, "answer")} not saved yet: not in the file.`);
  try {
    const reply = await ask(`api/export?${new URLSearchParams({ format })}`);
    const header = reply.headers.get("Content-Disposition");
    const [, quoted, encoded] = /filename(?:="([^"]+)"|\*=utf-8''([^;]+))/i.exec(header) ?? [];
    const name = quoted ?? (encoded ? decodeURIComponent(encoded) : `labels.${format}`);
    const link = element("a", { href: URL.createObjectURL(await reply.blob()), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    say(`Exported ${link.download}.`);
  } catch (error) {
    say(error.message);
  }
}

function showOptions() {
  $("keys").checked = page.keys;
  $("predictions").checked = page.predictions;
  $("biased").hidden = !page.predictions;
  document.body.classList.toggle("no-keys", !page.keys);
  if (page.keys) $("none").setAttribute("aria-keyshortcuts", "0 -");
  else $("none").removeAttribute("aria-keyshortcuts");
  page.render();
}

document.addEventListener("keydown", onKey);
window.addEventListener("beforeunload", (event) => answers.size && event.preventDefault());
document.addEventListener("visibilitychange", () => document.hidden || poll());
for (const name of VIEWS) {
  $(`tab-${name}`).addEventListener("click", () => show(name));
  $(`tab-${name}`).addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const next = VIEWS[(VIEWS.indexOf(name) + step + VIEWS.length) % VIEWS.length];
    show(next);
    $(`tab-${next}`).focus();
  });
}
$("none").addEventListener("click", () => give("none"));
$("skip").addEventListener("click", () => give("skip"));
$("undo").addEventListener("click", undo);
$("more").addEventListener("click", () => refresh(true));
$("class").addEventListener("change", () => {
  page.currentClass = $("class").value;
  lists.class = [];
  refresh();
});
$("size").value = remembered("size", () => "medium");
$("size").addEventListener("change", () => {
  sessionStorage.setItem("size", $("size").value);
  for (const node of nodes.values()) if (node.picture) showPicture(node);
  page.render();
});
$("find").addEventListener("input", () => page.render());
$("find").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const first = firstFound();
  if (first && $("find").value.trim()) first.click();
  else say("No class has these letters in its name.");
});
$("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("new-class").value.trim();
  if (!name) return;
  add({ kind: "add", name });
  focusCurrent();
  drain();
});
$("keys").addEventListener("change", () => {
  page.keys = $("keys").checked;
  localStorage.setItem("keys", page.keys ? "on" : "off");
  showOptions();
});
$("predictions").addEventListener("change", () => {
  page.predictions = $("predictions").checked;
  sessionStorage.setItem("predictions", page.predictions ? "shown" : "hidden");
  showOptions();
});
for (const button of $("exports").children) button.addEventListener("click", () => download(button.dataset.format));
showOptions();
poll();
