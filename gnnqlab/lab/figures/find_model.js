const TRIES = 600;
const PAUSE_MS = 100;

// A reloaded page creates its models in no particular order: wait until this one exists.
async function find(manager, id) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await manager.get_model(id);
    } catch (error) {
      if (attempt === TRIES) throw error;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}
