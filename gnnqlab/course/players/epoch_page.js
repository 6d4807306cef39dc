"use strict";
// Player of an epoch: all steps share one figure and differ in the values of its last traces. It plays in the times of
// the epoch, slowed down, and moves the markers of messages between sender and receiver.
readValues().then(({ ways, looks, unit }) => {
  const [slider, words, title, play, graph, pace] = ["step", "words", "title", "play", "figure", "pace"].map((id) => document.getElementById(id));
  const way = () => ways[document.querySelector("input[name=way]:checked")?.value ?? Object.keys(ways)[0]];
  const drawing = () => ({ frames: way().frames, ...way()[theme()] });
  const STEP_MS = 2000; // without motion, steps follow one another
  let [change, playing, turn, timer] = [null, false, 0, null];
  const axis = makeTimeAxis({ graph, unit, whole: () => drawing().layout.xaxis2.range, redraw: () => redraw() });

  function draw() {
    const { data, layout, frames, titles } = drawing();
    const number = Number(slider.value);
    const moved = frames[number];
    const first = data.length - moved.length;
    if (!change) {
      change = drawChart(graph, structuredClone({ data, layout: axis.inLayout(layout) }), looks[theme()]);
      axis.placeHold();
    }
    moved.forEach((values, each) => change(first + each, values));
    showTime(moved.at(-1).x[0]);
    title.textContent = titles[number];
    words.textContent = way().words[number];
    graph.setAttribute("aria-label", way().words[number]);
    slider.setAttribute("aria-valuetext", titles[number]);
  }

  function redraw() {
    change = null;
    draw();
  }

  // Move the cursor, the last trace; it is hidden outside the span of the time axis that is shown.
  function showTime(time) {
    const x = axis.holds(time) ? time : null;
    change(drawing().data.length - 1, { x: [x, x] });
  }

  // Move markers and cursor, the last two traces, to a time.
  function pass(time) {
    const spots = way().tracks.map(([start, end, x, y, toX, toY]) => {
      const gone = (time - start) / Math.max(end - start, 1e-6);
      return gone > 0 && gone < 1 ? [x + gone * (toX - x), y + gone * (toY - y)] : [null, null];
    });
    if (axis.follow(time)) redraw();
    change(drawing().data.length - 2, { x: spots.map(([x]) => x), y: spots.map(([, y]) => y) });
    showTime(time);
  }

  // Draw the step of the slider; the time axis follows it.
  function step() {
    const [start, end] = way().times[Number(slider.value)];
    if (axis.follow((start + end) / 2)) change = null;
    draw();
  }

  function go(number) {
    slider.value = Math.max(0, Math.min(number, Number(slider.max)));
    step();
  }

  function stop() {
    clearInterval(timer);
    playing = false;
    turn += 1; // ends the playing under way
    play.textContent = "Play";
    words.setAttribute("aria-live", "polite");
  }

  // Play from the current step to the end; follow the slider if the user moves it, and end when paused.
  async function playTimes() {
    const { times, span } = way();
    const length = times[times.length - 1][1];
    const speed = (span ?? length) / 1000; // the time axis in a second, the same for all ways
    const mine = turn;
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    let number = Number(slider.value);
    let [time, before] = [times[number][0], await frame()];
    while (playing && mine === turn) {
      const now = await frame();
      if (!playing || mine !== turn) return;
      if (Number(slider.value) !== number) [number, time] = [Number(slider.value), times[Number(slider.value)][0]];
      time += ((now - before) * speed) / Number(pace.value);
      before = now;
      if (time >= length) {
        go(Number(slider.max));
        pass(length);
        return stop();
      }
      let next = number;
      while (times[next][1] <= time) next += 1;
      if (next !== number) go((number = next));
      pass(time);
    }
  }

  function toggle() {
    if (playing) return stop();
    if (slider.value === slider.max) go(0);
    playing = true;
    play.textContent = "Pause";
    words.setAttribute("aria-live", "off"); // steps change faster than a screen reader can read them
    if (!still.matches) return playTimes();
    timer = setInterval(() => (slider.value === slider.max ? stop() : go(Number(slider.value) + 1)), STEP_MS);
  }

  function choose() {
    const wasPlaying = playing;
    stop();
    slider.max = way().words.length - 1;
    slider.value = Math.min(Number(slider.value), Number(slider.max));
    redraw();
    if (wasPlaying) toggle();
  }

  const KEYS = {
    ArrowLeft: () => go(Number(slider.value) - 1),
    ArrowRight: () => go(Number(slider.value) + 1),
    Home: () => go(0),
    End: () => go(Number(slider.max)),
    " ": toggle,
  };
  choose();
  watchPage(redraw);
  play.addEventListener("click", toggle);
  document.getElementById("back").addEventListener("click", KEYS.ArrowLeft);
  document.getElementById("next").addEventListener("click", KEYS.ArrowRight);
  slider.addEventListener("input", step);
  for (const each of document.querySelectorAll("input[name=way]")) each.addEventListener("change", choose);
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, button, select") || !(event.key in KEYS)) return; // these handle keys themselves
    if (event.shiftKey && axis.moveBy(event.key)) return event.preventDefault();
    KEYS[event.key]();
    event.preventDefault();
  });
  if (location.search === "?play" && !still.matches) toggle();
});
