"use strict";
// Plays an epoch: every step is the same figure with other places of rows, rings and cursor.
const ways = JSON.parse(document.getElementById("epoch").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const still = window.matchMedia("(prefers-reduced-motion: reduce)");
const [slider, words, play] = ["step", "words", "play"].map((id) => document.getElementById(id));
const graph = document.getElementById("figure");
const STEP_MS = 1500;
let timer = null;

const way = () => ways[document.querySelector("input[name=way]:checked").value];
const drawing = () => way()[dark.matches ? "dark" : "light"];

async function draw() {
  const { data, layout, frames, titles } = drawing();
  const number = Number(slider.value);
  const moved = frames[number];
  const traces = [...data.slice(0, data.length - moved.length), ...moved];
  words.textContent = way().words[number];
  graph.setAttribute("aria-label", way().words[number]);
  slider.setAttribute("aria-valuetext", titles[number]);
  const shown = { ...layout, title: { ...layout.title, text: titles[number] }, width: undefined };
  await Plotly.react(graph, traces, shown, { displayModeBar: false, responsive: true });
}

function go(number) {
  slider.value = Math.max(0, Math.min(number, Number(slider.max)));
  draw();
}

function stop() {
  clearInterval(timer);
  timer = null;
  play.textContent = "Play";
}

function toggle() {
  if (timer !== null) return stop();
  if (slider.value === slider.max) go(0);
  play.textContent = "Pause";
  timer = setInterval(() => {
    if (slider.value === slider.max) return stop();
    go(Number(slider.value) + 1);
  }, still.matches ? 2 * STEP_MS : STEP_MS);
}

function choose() {
  slider.max = way().words.length - 1;
  go(Number(slider.value));
}

unpack().then(() => {
  choose();
  play.addEventListener("click", toggle);
  document.getElementById("back").addEventListener("click", () => go(Number(slider.value) - 1));
  document.getElementById("next").addEventListener("click", () => go(Number(slider.value) + 1));
  slider.addEventListener("input", draw);
  for (const each of document.querySelectorAll("input[name=way]")) each.addEventListener("change", choose);
  dark.addEventListener("change", draw);
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, button")) return; // these have keys of their own
    if (event.key === "ArrowLeft") go(Number(slider.value) - 1);
    else if (event.key === "ArrowRight") go(Number(slider.value) + 1);
    else if (event.key === " ") toggle();
    else return;
    event.preventDefault();
  });
});
