// Draws outputs that JupyterLab has given up too early, after a page was loaded again.
//
// An output searches its model for 2 s. Who finds none waits until all models are there, and searches again; but a
// search that ends when they have just come (its last pause ends late on a busy page) looks no more, sees that all is
// there, and says "model not found" for good.

const LATE_VIEW = "application/vnd.jupyter.widget-view+json";
const LATE_PAUSE_MS = 100; // as long as the pauses of those searches: pauses end in the order they began
const LATE_TRIES = 600;

const searching = new WeakSet();

// Outputs of the notebook that the models belong to, whose models are there. Other pages (Voilà) have no cells.
function* outputsWithModels(manager) {
  for (const { outputs } of manager.context?.model?.cells ?? []) {
    for (let place = 0; place < (outputs?.length ?? 0); place += 1) {
      const id = outputs.get(place).data?.[LATE_VIEW]?.model_id;
      if (id && manager.has_model(id)) yield { outputs, place, id };
    }
  }
}

async function drawLateOutputs(manager) {
  if (searching.has(manager)) return;
  searching.add(manager);
  try {
    const pause = () => new Promise((done) => setTimeout(done, LATE_PAUSE_MS));
    for (let tried = 0; !manager.restoredStatus && tried < LATE_TRIES; tried += 1) await pause();
    await pause();
    await pause();
    const ids = new Set([...outputsWithModels(manager)].map(({ id }) => id));
    const models = new Map(await Promise.all([...ids].map(async (id) => [id, await manager.get_model(id)])));
    for (const { outputs, place, id } of [...outputsWithModels(manager)]) {
      const views = models.get(id)?.views;
      if (views && Object.keys(views).length === 0) outputs.set(place, outputs.get(place).toJSON());
    }
  } finally {
    searching.delete(manager);
  }
}
