// Static formats of a widget's view in a saved notebook, and the way back to the view.
//
// JupyterLab prefers a widget's view to all other formats of an output, and shows "model not found" without a kernel.
// So the saved output has no view: the view's id is in its metadata, and its data are static formats, among them the
// current figure. On a reloaded page, outputs whose models exist get their views back; so do outputs of other files for
// which JupyterLab gave up too early (it searches for a model for 2 s, on a busy page less). Other pages (Voilà,
// VS Code, Colab) have no cells, and keep the view.

const VIEW = "application/vnd.jupyter.widget-view+json";
const [FIGURE, PICTURE, TABLE] = ["application/vnd.plotly.v1+json", "image/svg+xml", "text/html"];
const LEFT = Symbol.for("gnnqlab.left");
const LEFT_PAUSE_MS = 100; // the pause of JupyterLab's search: equal timers end in the order in which they began
const LEFT_TRIES = 600;

// State of the page: managers whose outputs are watched, and figures by the id of their model. It is global, because
// every widget loads its own copy of this module.
function pageState() {
  return (globalThis[LEFT] ??= { managers: new WeakSet(), figures: new Map() });
}

function* outputsOf(context) {
  for (const { outputs, sharedModel } of context?.model?.cells ?? [])
    for (let place = 0; place < (outputs?.length ?? 0); place += 1) {
      const output = outputs.get(place).toJSON();
      yield { outputs, sharedModel, place, output, left: output.metadata?.gnnqlab };
    }
}

// A saved figure takes the width of the page on which it is opened.
function withoutWidth({ data, layout, config }) {
  const { width, ...others } = layout;
  // The config too: without it the figure's bar has a button that uploads it.
  return { data, layout: { ...others, autosize: true }, config: { showSendToCloud: false, ...config } };
}

function storedOf(output, { figure: name }) {
  const { [VIEW]: view, ...data } = output.data;
  const figure = pageState().figures.get(name);
  const spec = figure ? JSON.parse(figure.source.get("spec")) : {};
  if (!spec.data?.length) return { ...output, data };
  data[FIGURE] = withoutWidth(spec);
  delete data["image/png"]; // JupyterLab's image of the previous figure
  const caption = spec.layout.meta?.caption;
  if (caption) data["text/plain"] = caption;
  if (!figure.picture) return { ...output, data };
  delete data[TABLE]; // other viewers would prefer it to the picture
  data[PICTURE] = figure.picture;
  return { ...output, data, metadata: { ...output.metadata, [PICTURE]: { alt: caption ?? "" } } };
}

// Changes the cell's model for the file only: the output on the screen stays.
function leave(context) {
  if (context.model?.collaborative) return; // the model is also on other users' screens
  for (const { sharedModel, place, output, left } of [...outputsOf(context)])
    if (left?.view) sharedModel.updateOutputs(place, place + 1, [storedOf(output, left)], "silent-change");
}

async function bringBack(manager) {
  const pause = () => new Promise((done) => setTimeout(done, LEFT_PAUSE_MS));
  for (let attempt = 0; !manager.restoredStatus && attempt < LEFT_TRIES; attempt += 1) await pause();
  await pause();
  await pause();
  const viewOf = ({ output, left }) => output.data?.[VIEW] ?? left?.view;
  const some = () => [...outputsOf(manager.context)].filter((each) => manager.has_model(viewOf(each)?.model_id));
  const ids = new Set(some().map((each) => viewOf(each).model_id));
  const models = new Map(await Promise.all([...ids].map(async (id) => [id, await manager.get_model(id)])));
  for (const each of some()) {
    const { outputs, place, output } = each;
    const views = models.get(viewOf(each).model_id)?.views;
    if (views && Object.keys(views).length === 0)
      outputs.set(place, { ...output, data: { ...output.data, [VIEW]: viewOf(each) } });
  }
}

function watchOutputs(manager) {
  if (!manager.context || pageState().managers.has(manager)) return;
  pageState().managers.add(manager);
  manager.context.saveState?.connect((context, state) => {
    if (state !== "started") return;
    try {
      leave(context);
    } catch (error) {
      console.error("gnnqlab: an output was saved with its view", error); // an error must not prevent the saving
    }
  });
  bringBack(manager).catch((error) => console.error("gnnqlab: views were not restored", error));
}
