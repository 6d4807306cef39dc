"use strict";
// A page over a grid of computed states: one control per choice, steps where a state has several, figures and a table.
readValues().then(({ choices, states, figures, looks }) => {
  const [slider, words, title, table, places] = ["step", "words", "title", "table", "figures"].map((id) => document.getElementById(id));
  const moves = document.getElementById("moves");
  const controls = choices.map((_, number) => [...document.getElementsByName(`choice${number}`)]);
  const chosen = () => controls.map((inputs) => Number(inputs[0].type === "radio" ? inputs.findIndex((input) => input.checked) : inputs[0].value));
  const steps = () => states[chosen().join(",")];

  function draw() {
    const all = steps();
    slider.max = all.length - 1;
    moves.hidden = all.length < 2;
    const step = all[Math.min(Number(slider.value), all.length - 1)];
    title.textContent = step.title;
    words.innerHTML = step.words; // written by the package, with its own values escaped
    table.innerHTML = step.table;
    slider.setAttribute("aria-valuetext", step.title);
    while (places.children.length < step.figures.length) places.append(document.createElement("div"));
    while (places.children.length > step.figures.length) places.lastChild.remove();
    step.figures.forEach(({ light, dark, label }, number) => {
      const place = places.children[number];
      place.setAttribute("role", "img");
      place.setAttribute("aria-label", label);
      drawChart(place, structuredClone(figures[theme() === "dark" ? dark : light]), looks[theme()]);
    });
    choices.forEach(({ options }, number) => {
      const output = document.getElementById(`shown${number}`);
      if (output) output.textContent = options[chosen()[number]];
      if (controls[number][0].type === "range") controls[number][0].setAttribute("aria-valuetext", options[chosen()[number]]);
    });
  }
  function go(number) {
    slider.value = Math.max(0, Math.min(number, Number(slider.max)));
    draw();
  }
  const KEYS = {
    ArrowLeft: () => go(Number(slider.value) - 1),
    ArrowRight: () => go(Number(slider.value) + 1),
    Home: () => go(0),
    End: () => go(Number(slider.max)),
  };
  draw();
  watchPage(draw);
  document.getElementById("back").addEventListener("click", KEYS.ArrowLeft);
  document.getElementById("next").addEventListener("click", KEYS.ArrowRight);
  for (const input of document.querySelectorAll("input, select")) input.addEventListener("input", draw);
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, button, select") || !(event.key in KEYS)) return; // these handle keys themselves
    KEYS[event.key]();
    event.preventDefault();
  });
});
