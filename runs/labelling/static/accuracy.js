// The estimated accuracy: in words, as a curve with its interval, and as a table.

import { $, count, element, percent, plural, shape, table } from "./dom.js";
import { page } from "./model.js";

let shown = "";

const interval = ({ low, high }) => `${Math.round(100 * low)} to ${percent(high)}`;

export function renderAccuracy() {
  const { accuracy, to_target: target } = page.state;
  const text = JSON.stringify([accuracy, target]);
  if (shown === text) return;
  shown = text;
  $("target").textContent = "";
  $("curve").replaceChildren();
  if (!accuracy) {
    $("estimate").textContent =
      "No estimate yet. It comes from labels that you give after an item was predicted: go on labelling.";
    return;
  }
  const words = `${percent(accuracy.estimate)} of the predictions are correct (95\u00a0% interval ${interval(accuracy)})`;
  $("estimate").textContent = `${words}, from ${plural(accuracy.audited, "label")} given after the prediction.`;
  if (target) {
    const goal = percent(target.target);
    const sure = accuracy.low >= target.target ? "" : ", but the interval has not: more labels make it shorter";
    $("target").textContent =
      target.more > 0 ? `About ${plural(target.more, "more label")} to ${goal}.` : `The estimate has reached ${goal}${sure}.`;
  }
  const points = accuracy.curve;
  const rows = points.map((point) => [count(point.labels), percent(point.estimate), interval(point)]);
  const numbers = table("Estimated accuracy by number of labels", ["labels", "estimate", "95 % interval"], rows);
  const summary = element("summary", { textContent: "As a table" });
  $("curve").append(curve(points, words), element("details", {}, summary, numbers));
}

function curve(points, words) {
  const most = Math.max(...points.map((point) => point.labels), 1);
  const x = (point) => (44 + (266 * point.labels) / most).toFixed(1);
  const y = (value) => (150 - 140 * value).toFixed(1);
  const svg = shape("svg", { viewBox: "0 0 320 180", role: "img" });
  svg.setAttribute("aria-label", `Estimated accuracy by number of labels. ${words}.`);
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(shape("line", { class: "grid", x1: 44, x2: 310, y1: y(value), y2: y(value) }));
    svg.append(shape("text", { x: 38, y: Number(y(value)) + 4, "text-anchor": "end" }, percent(value)));
  }
  const upper = points.map((point) => `${x(point)},${y(point.high)}`);
  const lower = points.map((point) => `${x(point)},${y(point.low)}`).reverse();
  const last = points.at(-1);
  svg.append(
    shape("polygon", { class: "band", points: [...upper, ...lower].join(" ") }),
    shape("polyline", { points: points.map((point) => `${x(point)},${y(point.estimate)}`).join(" ") }),
    shape("line", { class: "now", x1: x(last), x2: x(last), y1: y(last.low), y2: y(last.high) }),
    shape("circle", { class: "dot", cx: x(last), cy: y(last.estimate), r: 4 }),
    shape("text", { x: 44, y: 168, "text-anchor": "start" }, "0"),
    shape("text", { x: 310, y: 168, "text-anchor": "end" }, `${count(most)} labels`),
  );
  return svg;
}
