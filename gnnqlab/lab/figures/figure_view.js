// Draws what a plain widget model holds, as often as it changes. That model and the one with Plotly's code are of
// Jupyter's own kind: messages reach them however long this module took to come, and a page that comes late finds in
// them all that it has missed.

const PLOTLY = Symbol.for("gnnqlab.plotly");
const MARGIN_PX = 8; // of the boxes round a figure
const REST_MS = 3000; // a figure that nobody has changed for so long is drawn once more, as a picture for the file
const PICTURE_PX = 720; // its width, which a page of 900 has room for
const MOST_LETTERS = 300_000; // of a picture: with more the file keeps the table

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

// Who was there when the model was made got the code with it; who came later asks, and gets it as a change.
async function code(manager, id) {
  const model = await find(manager, id);
  if (model.get("code")) return model.get("code");
  return new Promise((done) => {
    model.once("change:code", () => done(model.get("code")));
    model.send({ ask: "code" });
  });
}

// Once for all figures of a page; who fails leaves the place to the next.
function plotly(manager, { id, version }) {
  const known = (globalThis[PLOTLY] ??= new Map());
  if (!known.has(version)) {
    const made = code(manager, id).then(evaluate);
    made.catch(() => known.delete(version));
    known.set(version, made);
  }
  return known.get(version);
}

// As soon as the model is made: Plotly takes a page a second or two, in which the kernel draws.
function initialize({ model }) {
  plotly(model.widget_manager, model.get("plotly")).catch(() => {});
  lookAfterOutputs(model.widget_manager);
  figureOf(model).catch(() => {});
}

// What is shown, and the picture of it where one was taken since; one for all places on the page.
async function figureOf(model) {
  const name = model.get("source");
  const source = await find(model.widget_manager, name);
  const { figures } = kept();
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

// What an output of a narrow page leaves to a figure; unknown while it is not shown.
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
  let [asked, drawing, gone, heard] = [false, false, false, false];
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
      if (gone || figure.picture) return;
      const spec = source.get("spec");
      const picture = await photograph(Plotly, figure).catch(() => null);
      if (source.get("spec") === spec) figure.picture = picture;
    }, REST_MS);
  }

  async function draw() {
    asked = true;
    if (drawing || gone || !Plotly) return;
    drawing = true;
    try {
      while (asked && !gone) {
        asked = false;
        const { data, layout, config } = JSON.parse(source.get("spec"));
        layout.uirevision ??= layout.title?.text || "kept"; // while a figure keeps its name, zoom and hidden traces stay
        graph.setAttribute("aria-label", layout.meta?.caption ?? layout.title?.text ?? "figure");
        graph.style.minHeight = "";
        widest = layout.width ?? null;
        if (widest !== null) layout.width = drawn = fitting();
        const tall = layout.meta?.tall; // a drawing keeps its shape
        if (tall && layout.width) layout.height = Math.round(tall.fixed + tall.share * (layout.width - tall.beside));
        await Plotly.react(graph, data, layout, config);
        if (!heard) graph.on("plotly_click", clicked);
        heard = true;
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
    if (gone) return;
    const { height } = JSON.parse(source.get("spec")).layout;
    graph.setAttribute("role", "img");
    graph.style.minHeight = `${height ?? 450}px`; // what stands below does not jump
    output = el.closest(".gnnqlab-room") ?? el.closest(".jp-OutputArea-output") ?? document.body;
    resized.observe(output);
    source.on("change:spec", draw);
    Plotly = await plotly(model.widget_manager, model.get("plotly"));
    await draw();
  }

  begin().catch((error) => {
    console.error("gnnqlab: a figure found no code to draw with", error);
    graph.setAttribute("role", "alert");
    graph.textContent = `✗ The figure cannot be drawn: ${error.message}. Run the cell again.`;
  });
  return () => {
    gone = true;
    clearTimeout(resting);
    resized.disconnect();
    source?.off("change:spec", draw);
    Plotly?.purge(graph);
  };
}

export default { initialize, render };
