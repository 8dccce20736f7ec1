"use strict";
const tip = document.getElementById("tip");
const edges = [...document.querySelectorAll(".edge")];
const nodes = [...document.querySelectorAll(".node")];
function dark() {
  document.querySelectorAll(".on").forEach(e => e.classList.remove("on"));
  document.querySelectorAll(".lit").forEach(e => e.classList.remove("lit"));
}
function line(tag, text) {
  const e = document.createElement(tag);
  e.textContent = text;
  tip.append(e);
}
function show(node, event) {
  dark();
  node.classList.add("on");
  node.closest("svg").classList.add("lit");
  for (const edge of edges) {
    const { a, b } = edge.dataset;
    if (a !== node.id && b !== node.id) continue;
    edge.classList.add("on");
    document.getElementById(a === node.id ? b : a).classList.add("on");
  }
  const d = node.dataset;
  tip.replaceChildren();
  line("code", d.detail);
  line("div", d.type);
  if (d.layer) line("em", "layer " + d.layer);
  if (d.end) line("div", "→ " + d.end);
  if (d.note) line("pre", d.note);
  tip.hidden = false;
  move(event);
}
function move(event) {
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 16, innerWidth - box.width - 8);
  const y = event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18;
  tip.style.left = Math.max(8, x) + "px";
  tip.style.top = Math.max(8, y) + "px";
}
for (const node of nodes) {
  node.addEventListener("pointerenter", event => show(node, event));
  node.addEventListener("pointermove", move);
  node.addEventListener("pointerleave", () => { tip.hidden = true; dark(); });
}
for (const button of document.querySelectorAll("[data-word]")) {
  button.addEventListener("click", () => {
    const was = button.classList.contains("on");
    dark();
    if (was) return;
    button.classList.add("on");
    for (const node of nodes) {
      if (!node.dataset.note.includes("(" + button.dataset.word + ")")) continue;
      node.classList.add("on");
      node.closest("svg").classList.add("lit");
    }
  });
}
