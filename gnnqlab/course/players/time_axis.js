// The shown span of an epoch's time axis: buttons, keys, wheel, mouse and touch zoom and move it. Without `unit` the page
// has no buttons, and shows the whole epoch.
function makeTimeAxis({ graph, unit, whole, redraw }) {
  const CLOSEST = 200; // largest magnification
  const NAME = "xaxis2"; // of the lanes
  const fingers = new Map(); // pointer -> its horizontal position on the page
  let shown = null; // [start, end]; null for the whole epoch
  let due = 0;
  const hold = document.createElement("div"); // it stays while the figure is drawn again, so that a touch goes on
  hold.className = "hold";
  const span = () => shown ?? whole();

  // Show a span, within the epoch and not too short; return true if it differs from the one before.
  function set(start, length) {
    const [first, last] = whole();
    const kept = Math.min(Math.max(length, (last - first) / CLOSEST), last - first);
    const from = Math.min(Math.max(start, first), last - kept);
    const next = kept === last - first ? null : [from, from + kept];
    const isNew = String(next) !== String(shown);
    shown = next;
    say();
    return isNew;
  }

  function show(start, length) {
    if (set(start, length)) due ||= requestAnimationFrame(() => ((due = 0), redraw())); // one drawing for a frame
  }

  function say() {
    const output = document.getElementById("span");
    const [start, end] = span();
    const digits = Math.max(0, Math.ceil(2 - Math.log10(end - start)));
    if (output) output.textContent = `${start.toFixed(digits)} to ${end.toFixed(digits)} ${unit}`;
  }

  // The time `at` keeps its place.
  function zoom(factor, at = null) {
    const [start, end] = span();
    const time = at ?? (start + end) / 2;
    show(time - (time - start) * factor, (end - start) * factor);
  }

  function move(share) {
    const [start, end] = span();
    show(start + share * (end - start), end - start);
  }

  function timeAt(clientX) {
    const svg = graph.querySelector("svg");
    const { left, width } = svg.getBoundingClientRect();
    const [low, high] = graph.axes[NAME].span; // in units of the drawing
    const [start, end] = span();
    return start + ((end - start) * ((clientX - left) * (svg.viewBox.baseVal.width / width) - low)) / (high - low);
  }

  // Times under the fingers stay there: one finger moves the axis, two zoom it.
  function drag(event) {
    if (!fingers.has(event.pointerId)) return;
    const before = [...fingers.values()].slice(0, 2);
    fingers.set(event.pointerId, event.clientX);
    const after = [...fingers.values()].slice(0, 2);
    const middle = (places) => places.reduce((sum, each) => sum + each, 0) / places.length;
    const apart = (places) => (places.length < 2 ? 1 : Math.max(Math.abs(places[1] - places[0]), 10));
    const factor = apart(before) / apart(after);
    const [start, end] = span();
    const [time, place] = [timeAt(middle(before)), timeAt(middle(after))];
    show(time - (place - start) * factor, (end - start) * factor);
  }

  const MOVES = { ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25) };
  const KEYS = { ...MOVES, "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => zoom(Infinity) };

  function listen() {
    graph.after(hold);
    const buttons = { closer: KEYS["+"], wider: KEYS["-"], earlier: MOVES.ArrowLeft, later: MOVES.ArrowRight, whole: KEYS[0] };
    for (const [id, act] of Object.entries(buttons)) document.getElementById(id).addEventListener("click", act);
    document.getElementById("zoom").addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || !(event.key in KEYS)) return;
      KEYS[event.key]();
      event.preventDefault();
    });
    hold.addEventListener("wheel", (event) => {
      const pixels = (each) => each * (event.deltaMode ? 20 : 1); // lines of a mouse, pixels of a touchpad
      if (event.ctrlKey || event.metaKey) zoom(2 ** (pixels(event.deltaY) / 200), timeAt(event.clientX));
      else if (event.shiftKey || event.deltaX) move(pixels(event.deltaX || event.deltaY) / 600);
      else return; // the page scrolls
      event.preventDefault();
    }, { passive: false });
    hold.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      fingers.set(event.pointerId, event.clientX);
      hold.setPointerCapture(event.pointerId);
    });
    hold.addEventListener("pointermove", drag);
    for (const kind of ["pointerup", "pointercancel"]) hold.addEventListener(kind, (event) => fingers.delete(event.pointerId));
    say();
  }
  if (unit) listen();

  return {
    inLayout: (layout) => (shown ? { ...layout, [NAME]: { ...layout[NAME], range: shown } } : layout),
    holds: (time) => time >= span()[0] && time <= span()[1],
    // Move the span if a time is outside of it, to have most of it after that time; return true if it was.
    follow(time) {
      const [start, end] = span();
      return shown !== null && (time < start || time > end) && set(time - 0.1 * (end - start), end - start);
    },
    // Move the span by an arrow key; return false for another key.
    moveBy(key) {
      if (!unit || !(key in MOVES)) return false;
      MOVES[key]();
      return true;
    },
    // Lay the surface that receives wheel and touch over the lanes.
    placeHold() {
      if (!unit) return;
      const width = graph.querySelector("svg").viewBox.baseVal.width;
      const [[left, right], [top, bottom]] = [NAME, "yaxis2"].map((name) => [...graph.axes[name].span].sort((a, b) => a - b));
      const share = (pixels) => `${(100 * pixels) / width}%`;
      Object.assign(hold.style, { left: share(left), width: share(right - left), top: `${top}px`, height: `${bottom - top + 24}px` });
    },
  };
}
