// Draws the figure of a plain widget model after every change. This model and the one with Plotly's code are of
// Jupyter's base class: they receive messages even before this module has loaded, and a page that is opened later finds
// the current state in them.

const PLOTLY = Symbol.for("gnnqlab.plotly");
const MARGIN_PX = 8; // of the boxes around a figure
const REST_MS = 3000; // after this time without a change, a figure is drawn again as a picture for the file
const PICTURE_PX = 720; // width of the picture, which fits a page of 900
const MOST_LETTERS = 300_000; // longest picture; instead of a longer one the file has the table

async function evaluate(text) {
  const before = "const module = { exports: {} }, exports = module.exports; let define;\n";
  const parts = [before, text, "\nexport default module.exports;\n"];
  const address = URL.createObjectURL(new Blob(parts, { type: "text/javascript" }));
  try {
    return (await import(address)).default;
  } finally {
    URL.revokeObjectURL(address);
  }
}

// A page that was open when the model was created got the code with it; a later one requests it, and gets a change.
async function code(manager, id) {
  const model = await find(manager, id);
  if (model.get("code")) return model.get("code");
  return new Promise((done) => {
    model.once("change:code", () => done(model.get("code")));
    model.send({ ask: "code" });
  });
}

// Loads Plotly once for all figures of a page; after a failure the next figure tries again.
function plotly(manager, { id, version }) {
  const known = (globalThis[PLOTLY] ??= new Map());
  if (!known.has(version)) {
    const made = code(manager, id).then(evaluate);
    made.catch(() => known.delete(version));
    known.set(version, made);
  }
  return known.get(version);
}

// Loads Plotly as soon as the model exists: this takes a second or two, during which the kernel draws.
function initialize({ model }) {
  plotly(model.widget_manager, model.get("plotly")).catch(() => {});
  watchOutputs(model.widget_manager);
  figureOf(model).catch(() => {});
}

// The figure of a model, and its picture if one was taken since the last change; shared by all views on the page.
async function figureOf(model) {
  const name = model.get("source");
  const source = await find(model.widget_manager, name);
  const { figures } = pageState();
  if (figures.get(name)?.source !== source) {
    const figure = { source, picture: null };
    figures.set(name, figure);
    source.on("change:spec", () => { figure.picture = null; });
    source.once("destroy", () => figures.delete(name));
  }
  return figures.get(name);
}

async function photograph(Plotly, { source }) {
  const { data, layout } = JSON.parse(source.get("spec"));
  if (!data.length) return null;
  const { tall } = layout.meta ?? {};
  const height = tall ? Math.round(tall.fixed + tall.share * (PICTURE_PX - tall.beside)) : (layout.height ?? 450);
  const size = { width: PICTURE_PX, height };
  const picture = await Plotly.toImage({ data, layout: { ...layout, ...size } }, { format: "svg", imageDataOnly: true, ...size });
  return picture.length > MOST_LETTERS ? null : picture;
}

// Width in pixels that an output has for a figure; negative while the output is hidden.
function room(output) {
  const { paddingLeft, paddingRight } = getComputedStyle(output);
  return Math.floor(output.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight) - MARGIN_PX);
}

function render({ model, el }) {
  const graph = document.createElement("div");
  el.replaceChildren(graph);
  let source = null;
  let figure = null;
  let Plotly = null;
  let resting = 0;
  let [pending, drawing, removed, listening] = [false, false, false, false];
  let [output, widest, drawn] = [document.body, null, null]; // widths in pixels
  const resized = new ResizeObserver(() => {
    if (widest !== null && fitting() !== drawn) draw();
  });

  function fitting() {
    const pixels = room(output);
    return pixels > 0 ? Math.min(widest, pixels) : widest;
  }

  function clicked({ points: [point] }) {
    const { curveNumber: trace, x, y } = point;
    source.set("clicked", { trace, x, y, number: (source.get("clicked")?.number ?? 0) + 1 });
    source.save_changes();
  }

  function rest() {
    clearTimeout(resting);
    resting = setTimeout(async () => {
      if (removed || figure.picture) return;
      const spec = source.get("spec");
      const picture = await photograph(Plotly, figure).catch(() => null);
      if (source.get("spec") === spec) figure.picture = picture;
    }, REST_MS);
  }

  async function draw() {
    pending = true;
    if (drawing || removed || !Plotly) return;
    drawing = true;
    try {
      while (pending && !removed) {
        pending = false;
        const { data, layout, config } = JSON.parse(source.get("spec"));
        layout.uirevision ??= layout.title?.text || "kept"; // while the title stays, zoom and hidden traces stay
        graph.setAttribute("aria-label", layout.meta?.caption ?? layout.title?.text ?? "figure");
        graph.style.minHeight = "";
        widest = layout.width ?? null;
        if (widest !== null) layout.width = drawn = fitting();
        const tall = layout.meta?.tall; // of a drawing, which keeps its aspect ratio
        if (tall && layout.width) layout.height = Math.round(tall.fixed + tall.share * (layout.width - tall.beside));
        await Plotly.react(graph, data, layout, config);
        if (!listening) graph.on("plotly_click", clicked);
        listening = true;
      }
      rest();
    } catch (error) {
      console.error("gnnqlab: a figure was not drawn", error);
    } finally {
      drawing = false;
    }
  }

  async function begin() {
    figure = await figureOf(model);
    source = figure.source;
    if (removed) return;
    const { height } = JSON.parse(source.get("spec")).layout;
    graph.setAttribute("role", "img");
    graph.style.minHeight = `${height ?? 450}px`; // so that content below does not jump
    output = el.closest(".gnnqlab-room") ?? el.closest(".jp-OutputArea-output") ?? document.body;
    resized.observe(output);
    source.on("change:spec", draw);
    Plotly = await plotly(model.widget_manager, model.get("plotly"));
    await draw();
  }

  begin().catch((error) => {
    console.error("gnnqlab: Plotly was not loaded", error);
    graph.setAttribute("role", "alert");
    graph.textContent = `✗ The figure cannot be drawn: ${error.message}. Run the cell again.`;
  });
  return () => {
    removed = true;
    clearTimeout(resting);
    resized.disconnect();
    source?.off("change:spec", draw);
    Plotly?.purge(graph);
  };
}

export default { initialize, render };
