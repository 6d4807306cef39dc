"""Modules of a user's model whose numbers depend on the number of workers, found before a launch."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from gnnqlab.graph.sources.sizes import least_size
from gnnqlab.nn.models.model_output import require_forward
from gnnqlab.nn.models.registry import build_model, model_home
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.node_features import num_features

__all__ = ["worker_dependent_modules"]


def worker_dependent_modules(config: RunConfig) -> list[str]:
    """Return warnings of modules that break "P workers = one process"; empty for one worker and the package's models.

    Batch normalization of PyTorch computes its statistics over the rows of one worker. Dropout modules draw random
    numbers in the order of a worker's rows, where ``g.dropout`` draws them by node. Functions such as ``torch.dropout``
    in a model's ``forward`` are found by :func:`gnnqlab.testing.check_law` only.

    Raises:
        TypeError: if ``forward`` of the model takes other arguments than ``(g, x)``.

    Example:
        >>> from gnnqlab.train.config.configure import configure
        >>> worker_dependent_modules(configure("sbm:100,3,6", workers=2))
        []
    """
    if not model_home(config.model.name):
        return []
    size = least_size(config.graph)
    given, classes = (4, 3) if size is None else (size.features or 4, size.classes or 3)
    features = num_features(given, config.task.node_features, config.model.hidden)
    try:
        model = build_model(config.model, features, classes, seed=0)
    except Exception:  # the workers report a model that cannot be built
        return []
    require_forward(config.model.name, model)
    if config.workers == 1:
        return []
    return [
        f"module {name or 'itself'} of model {config.model.name}, {type(module).__name__}, {effect}, so losses depend "
        f"on the number of workers, here {config.workers}; {way}"
        for name, module in model.named_modules()
        for kind, effect, way in _KINDS
        if isinstance(module, kind)
    ]


_KINDS: tuple[tuple[type[nn.Module], str, str], ...] = (
    (
        _BatchNorm,
        "is a batch normalization, whose statistics are those of one worker's rows",
        "use gnnqlab.nn.SyncBatchNorm, called with g, whose statistics are those of all workers, or torch.nn.LayerNorm",
    ),
    (
        _DropoutNd,
        "is a dropout with random numbers in the order of one worker's rows",
        "use g.dropout(x, p), whose mask is a function of the node",
    ),
    (
        nn.RReLU,
        "draws random slopes in the order of one worker's rows",
        "use torch.nn.LeakyReLU",
    ),
)
