"use strict";
// Player of an epoch: all steps share one figure and differ in the values of its last traces. If the steps have times,
// it plays at these times, slowed down, and moves the markers of messages between sender and receiver.
const ways = JSON.parse(document.getElementById("epoch").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const still = window.matchMedia("(prefers-reduced-motion: reduce)");
const [slider, words, play] = ["step", "words", "play"].map((id) => document.getElementById(id));
const graph = document.getElementById("figure");
const pace = document.getElementById("pace");
const STEP_MS = 1500;
let timer = null; // interval that advances the steps of an epoch without times
let playing = false;
let turn = 0; // number of the current playing, so that an earlier one ends

const way = () => ways[document.querySelector("input[name=way]:checked")?.value ?? Object.keys(ways)[0]];
const drawing = () => ({ frames: way().frames, ...way()[dark.matches ? "dark" : "light"] });

async function draw() {
  const { data, layout, frames, titles } = drawing();
  const number = Number(slider.value);
  const moved = frames[number];
  const first = data.length - moved.length;
  const traces = data.map((trace, at) => (at < first ? trace : { ...trace, ...moved[at - first] }));
  words.textContent = way().words[number];
  graph.setAttribute("aria-label", way().words[number]);
  slider.setAttribute("aria-valuetext", titles[number]);
  const shown = { ...layout, title: { ...layout.title, text: titles[number] }, width: undefined };
  await Plotly.react(graph, traces, shown, { displayModeBar: false, responsive: true });
}

// Move markers and cursor, the last two traces, to a time between the middles of two steps.
async function pass(at) {
  const { data } = drawing();
  const spots = way().tracks.map(([start, end, x, y, toX, toY]) => {
    const gone = (at - start) / Math.max(end - start, 1e-6);
    return gone > 0 && gone < 1 ? [x + gone * (toX - x), y + gone * (toY - y)] : [null, null];
  });
  const last = data.length - 1;
  const [x, y] = [0, 1].map((axis) => spots.map((spot) => spot[axis]));
  await Plotly.restyle(graph, { x: [x, [at, at]], y: [y, data[last].y] }, [last - 1, last]);
}

function go(number) {
  slider.value = Math.max(0, Math.min(number, Number(slider.max)));
  return draw();
}

function stop() {
  clearInterval(timer);
  timer = null;
  playing = false;
  play.textContent = "Play";
  words.setAttribute("aria-live", "polite");
}

// Play from the current step to the end; follow the slider if the user moves it, and end when paused.
async function playTimes() {
  const { times, span } = way();
  const length = times[times.length - 1][1];
  const speed = (span ?? length) / 1000; // the time axis in a second, the same for all ways
  const mine = (turn += 1);
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  let [at, before] = [times[Number(slider.value)][0], await frame()];
  let number = Number(slider.value);
  while (playing && mine === turn) {
    const now = await frame();
    if (Number(slider.value) !== number) [number, at] = [Number(slider.value), times[Number(slider.value)][0]];
    at += ((now - before) * speed) / Number(pace.value);
    before = now;
    if (at >= length) {
      await go(Number(slider.max));
      return stop();
    }
    let next = number;
    while (times[next][1] <= at) next += 1;
    if (next !== number) {
      number = next;
      await go(number);
    }
    if (playing && mine === turn) await pass(at);
  }
}

function toggle() {
  if (playing) return stop();
  if (slider.value === slider.max) go(0);
  playing = true;
  play.textContent = "Pause";
  words.setAttribute("aria-live", "off"); // steps change faster than a screen reader can read them
  if (way().times && !still.matches) return playTimes();
  timer = setInterval(() => {
    if (slider.value === slider.max) return stop();
    go(Number(slider.value) + 1);
  }, still.matches ? 2 * STEP_MS : STEP_MS);
}

async function choose() {
  const wasPlaying = playing;
  stop();
  turn += 1;
  slider.max = way().words.length - 1;
  await go(Number(slider.value));
  if (wasPlaying) toggle();
}

const KEYS = {
  ArrowLeft: () => go(Number(slider.value) - 1),
  ArrowRight: () => go(Number(slider.value) + 1),
  Home: () => go(0),
  End: () => go(Number(slider.max)),
  " ": toggle,
};

unpack().then(() => {
  choose();
  play.addEventListener("click", toggle);
  document.getElementById("back").addEventListener("click", () => go(Number(slider.value) - 1));
  document.getElementById("next").addEventListener("click", () => go(Number(slider.value) + 1));
  slider.addEventListener("input", draw);
  for (const each of document.querySelectorAll("input[name=way]")) each.addEventListener("change", choose);
  dark.addEventListener("change", draw);
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, button, select") || !(event.key in KEYS)) return; // these elements handle keys themselves
    KEYS[event.key]();
    event.preventDefault();
  });
});
