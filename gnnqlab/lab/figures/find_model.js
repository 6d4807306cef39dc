const TRIES = 600;
const PAUSE_MS = 100;

// A page that is loaded again makes its models in no particular order.
async function find(manager, id) {
  for (let tried = 1; ; tried += 1) {
    try {
      return await manager.get_model(id);
    } catch (error) {
      if (tried === TRIES) throw error;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}
