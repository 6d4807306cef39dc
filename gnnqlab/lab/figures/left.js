// What a view leaves in a saved notebook, and how it comes back.
//
// Of all that an output holds JupyterLab shows a widget's view, and without a kernel that is "model not found". So the
// file does not get the view: its name stands in the output's metadata, and its data are for whoever has no kernel, the
// figure as it stands now among them. On a page that is loaded again, outputs whose models are there get their views
// back; so do outputs of other files that JupyterLab gave up too early (it searches a model for 2 s, on a busy page
// less). Other pages (Voilà, VS Code, Colab) have no cells, and keep the view.

const VIEW = "application/vnd.jupyter.widget-view+json";
const [FIGURE, PICTURE, TABLE] = ["application/vnd.plotly.v1+json", "image/svg+xml", "text/html"];
const LEFT = Symbol.for("gnnqlab.left");
const LEFT_PAUSE_MS = 100; // as long as the pauses of JupyterLab's search: pauses end in the order they began
const LEFT_TRIES = 600;

// Of the page: which managers are looked after, and by their models' names the figures. Every widget has this module
// for itself.
function kept() {
  return (globalThis[LEFT] ??= { managers: new WeakSet(), figures: new Map() });
}

function* outputsOf(context) {
  for (const { outputs, sharedModel } of context?.model?.cells ?? [])
    for (let place = 0; place < (outputs?.length ?? 0); place += 1) {
      const output = outputs.get(place).toJSON();
      yield { outputs, sharedModel, place, output, left: output.metadata?.gnnqlab };
    }
}

// A figure is as wide as the page it is opened on.
function withoutWidth({ data, layout }) {
  const { width, ...others } = layout;
  return { data, layout: { ...others, autosize: true } };
}

function storedOf(output, { figure: name }) {
  const { [VIEW]: view, ...data } = output.data;
  const figure = kept().figures.get(name);
  const spec = figure ? JSON.parse(figure.source.get("spec")) : {};
  if (!spec.data?.length) return { ...output, data };
  data[FIGURE] = withoutWidth(spec);
  delete data["image/png"]; // JupyterLab's own, of the figure before
  const caption = spec.layout.meta?.caption;
  if (caption) data["text/plain"] = caption;
  if (!figure.picture) return { ...output, data };
  delete data[TABLE]; // which other readers would prefer
  data[PICTURE] = figure.picture;
  return { ...output, data, metadata: { ...output.metadata, [PICTURE]: { alt: caption ?? "" } } };
}

// Only the file's side of a cell: its output on the screen stays as it is.
function leave(context) {
  if (context.model?.collaborative) return; // others look at the very same
  for (const { sharedModel, place, output, left } of [...outputsOf(context)])
    if (left?.view) sharedModel.updateOutputs(place, place + 1, [storedOf(output, left)], "silent-change");
}

async function bringBack(manager) {
  const pause = () => new Promise((done) => setTimeout(done, LEFT_PAUSE_MS));
  for (let tried = 0; !manager.restoredStatus && tried < LEFT_TRIES; tried += 1) await pause();
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

function lookAfterOutputs(manager) {
  if (!manager.context || kept().managers.has(manager)) return;
  kept().managers.add(manager);
  manager.context.saveState?.connect((context, state) => {
    if (state !== "started") return;
    try {
      leave(context);
    } catch (error) {
      console.error("gnnqlab: a view was saved as it is", error); // nothing may keep a notebook from being saved
    }
  });
  bringBack(manager).catch((error) => console.error("gnnqlab: outputs were not looked after", error));
}
