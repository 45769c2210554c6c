"""What to write instead of functions and classes of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ENGINE: Final = "pn.TrainingEngine(net, (X, y))"
_SPLIT: Final = "val_data=0.2 of pn.TrainingEngine(net, (X, y), val_data=0.2), which splits by seed and class"
_IMPORT: Final = "pn.from_module(net, args=(x,))"
_RESUME: Final = "pn.TrainingEngine.resume_from(path, net, (X, y))"
_LAYERS: Final = 'pn.Inspector(net), then inspector.watch("*") and inspector.run_inspection(x)'
_SEQUENTIAL: Final = 'pn.sequential(nn.Linear(4, 8), nn.ReLU(), input=("N", 4))'
_EPOCH: Final = 'engine.on("epoch", function)'

FUNCTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("module", "lightning_module"), "pn.NodeGraph(), or pn.TrainingEngine(net, (X, y)) of a module that you have"
    ),
    "data_loader": "pn.TrainingEngine(net, (X, y), batch_size=64), which takes a DataLoader of torch as well",
    "devices": "pn.DeviceManager().devices",
    **dict.fromkeys(
        ("evaluate", "accuracy_score", "classification_report", "cross_val_score", "test"),
        "engine.evaluate((X_test, y_test)); pn.confusion(engine).by_class() has precision and recall",
    ),
    **dict.fromkeys(("fit", "train"), "pn.TrainingEngine(net, (X, y)).start()"),
    "from_keras": f"{_IMPORT} of the same model in PyTorch; nothing else is imported",
    "from_onnx": "pn.InferenceEngine.load(path), which runs an ONNX file; it cannot be drawn",
    "help": "help(pn.TrainingEngine); the README lists the pages",
    "layers": 'graph.add("Linear", out_features=10); pn.catalog has all types',
    "nn": f'torch.nn, graph.add("Linear", out_features=10), or {_SEQUENTIAL}',
    "predict": "engine.predict(X), or pn.InferenceEngine(model).predict(X)",
    **dict.fromkeys(
        ("seed", "manual_seed", "set_random_seed", "seed_everything"), "pn.TrainingEngine(net, (X, y), seed=0)"
    ),
    **dict.fromkeys(
        """
        dashboard monitor watch live tensor_board wandb summary_writer progress_bar learning_curve
        show_graph_callback
        """.split(),
        "pn.TrainingDashboard(engine); engine.history.plot() is a picture",
    ),
    **dict.fromkeys(("plot_history", "plot_loss", "plot_losses"), "engine.history.plot()"),
    **dict.fromkeys(
        ("editor", "draw", "edit", "display", "plot", "plot_model", "render", "show", "make_dot", "set_config"),
        "pn.GraphEditor(graph); engine.history.plot() draws a training, pn.TrainingDashboard(engine) shows it",
    ),
    **dict.fromkeys(
        ("engine", "learner", "neural_net", "trainer", "training", "train_engine", "classifier", "regressor"), _ENGINE
    ),
    "model": f"pn.NodeGraph(), or {_ENGINE}",
    **dict.fromkeys(
        ("grid_search", "grid_search_cv", "randomized_search_cv"), f"{_ENGINE} for each choice of arguments"
    ),
    **dict.fromkeys(("explorer", "explore", "view", "visualize"), "pn.ModuleExplorer(net), or pn.GraphEditor(graph)"),
    **dict.fromkeys(("graph", "network"), "pn.NodeGraph()"),
    **dict.fromkeys(
        """
        from_pytorch from_torch from_model import_model import_module trace symbolic_trace fx wrap
        convert to_graph clone clone_model
        """.split(),
        _IMPORT,
    ),
    **dict.fromkeys(
        """
        sequential sequential_ex chain pipeline make_pipeline models mlp_classifier mlp_regressor
        """.split(),
        _SEQUENTIAL,
    ),
    **dict.fromkeys(("load_graph", "read_graph", "model_from_json", "open", "read"), "pn.NodeGraph.load(path)"),
    "load_model": f"pn.load(path) for a package, pn.NodeGraph.load(path) for a graph, {_RESUME} for a checkpoint",
    **dict.fromkeys(("load_checkpoint", "load_from_checkpoint", "load_learner", "load_params", "resume"), _RESUME),
    **dict.fromkeys(("load_state_dict", "set_weights"), "pn.load_weights(graph, state_dict)"),
    **dict.fromkeys(
        ("dump", "save_checkpoint"), "engine.save_checkpoint(path), graph.save(path), or pn.save(graph, model, path)"
    ),
    "save_model": "pn.save(graph, model, path)",
    **dict.fromkeys(("code", "source", "to_code", "to_python"), "pn.to_source(graph)"),
    **dict.fromkeys(("shapes", "shape"), "pn.infer_shapes(graph)"),
    **dict.fromkeys(("confusion_matrix", "interpretation"), "pn.confusion(engine), or pn.confusion(y, predicted)"),
    **dict.fromkeys(("top_losses", "worst_examples", "discrepancy"), "pn.worst(engine, 10)"),
    **dict.fromkeys(
        ("onnx", "to_onnx", "save_onnx", "to_torchscript", "torchscript", "convert_sklearn"),
        'pn.export(graph, "net.onnx")',
    ),
    "build": "pn.compile(graph)",
    **dict.fromkeys(
        ("keras", "math", "metrics", "tf", "utils"),
        "the name without it, such as pn.confusion(engine) or pn.GraphEditor(graph); dir(pn) lists all",
    ),
    **dict.fromkeys(
        ("find_lr", "lr_find", "lr_finder", "learning_rate_finder", "range_test", "tune", "tuner"),
        "pn.find_learning_rate(engine)",
    ),
    **dict.fromkeys(("check", "debug", "check_estimator"), "pn.diagnose(engine)"),
    **dict.fromkeys(
        ("callback", "early_stopping", "model_checkpoint", "epoch_scoring"),
        f'{_EPOCH}; early_stopping=5 and checkpoint_dir="runs" are arguments of the engine',
    ),
    **dict.fromkeys(("info", "count_parameters", "count_params", "torchinfo", "torchsummary"), "pn.summary(net, x)"),
    **dict.fromkeys(
        ("hook", "register_forward_hook", "activations", "layer_outputs", "activation_stats", "inspect", "inspection"),
        _LAYERS,
    ),
    "freeze": 'graph.freeze("fc"), or model.requires_grad_(False)',
    **dict.fromkeys(("random_split", "split", "splitter", "split_dataset", "train_test_split"), _SPLIT),
    **dict.fromkeys(
        ("load_dataset", "load_iris", "load_digits", "load_wine", "untar_data", "urls", "mnist"),
        "pn.TrainingEngine(net, (X, y)) with the arrays of any other library",
    ),
}
"""What to write instead of functions and classes of other libraries, by their names in lower case with underscores."""
