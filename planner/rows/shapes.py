"""The shape columns of a table: each row's architecture, from its columns and from the catalogue."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from planner import catalog
from planner.algebra.expressions import Array
from planner.errors import InputError
from planner.rows.plans import read_switch
from planner.rows.table import Codes, Table, distinct
from planner.schema.base import validate
from planner.schema.model import Model

#: Columns of the shape and the keys of a `Model` that they give.
WIDTHS = {
    "n_layers": "layers", "d_model": "d_model", "n_heads": "heads", "n_kv_heads": "kv_heads", "head_dim": "head_dim",
    "d_ff": "d_ff", "vocab": "vocab",
}  # fmt: skip
MIXTURE = {"n_experts": "experts", "top_k": "top_k", "d_expert": "d_expert"}
SWITCHES = {"gated_mlp": "gated_mlp", "tied_embeddings": "tied_embeddings"}

#: A catalogue architecture stands for a row of its name where these agree, as far as the row gives them.
IDENTITY = {"n_layers", "d_model", "n_heads"}

MOST_LAYERS = 10**4

Row = dict[str, Any]


def read_models(table: Table) -> tuple[Codes, list[Model | None]]:
    """Each row's architecture as (codes, distinct architectures); rows without one are rejected and have None.

    A row whose ``model`` is a catalogue name (case and punctuation apart), and whose layers, width, heads and experts
    are the catalogue's or empty, is that architecture, with the columns that the row does give instead of the
    catalogue's: so a DeepSeek-V3 row has its latent attention and its leading dense layers, which no column can say.
    The multi-token-prediction modules are left out, since no column says whether a run trained them. Every other row is
    what its columns say: where the cell is empty, ``n_kv_heads`` is ``n_heads``, ``head_dim`` is ``d_model / n_heads``,
    ``d_expert`` is ``d_ff``, the feed-forward is gated and the embeddings are apart. Shared experts are as wide as
    routed ones.
    """
    keys: dict[str, Any] = {name: table.numbers(name) for name in (*WIDTHS, *MIXTURE)}
    keys["n_shared_experts"] = _shared(table)
    for name in SWITCHES:
        codes, switches = table.parsed(name, read_switch, None)
        keys[name] = np.array([np.nan if switch is None else float(switch) for switch in switches])[codes]
    codes, architectures = table.parsed("arch", read_architecture, "")
    keys["arch"] = np.array(architectures, dtype=object)[codes]
    codes, names = table.texts("model")
    keys["model"] = np.array([catalogue_name(name) for name in names], dtype=object)[codes]
    frame = pd.DataFrame(keys)
    groups = frame.groupby(list(keys), dropna=False, sort=False).ngroup().to_numpy().astype(np.intp)
    first = np.unique(groups, return_index=True)[1]
    readable = table.readable(*frame.columns.drop("model"))
    models: list[Model | None] = []
    for group, position in enumerate(first):
        row: Row = {str(name): value for name, value in frame.iloc[position].items() if not pd.isna(value)}
        try:
            models.append(build_model(row))
        except InputError as error:
            models.append(None)
            table.reject(readable & (groups == group), "; ".join(error.problems))
    return distinct(groups, models)


def read_architecture(text: str) -> str:
    """``dense``, ``moe`` or nothing. Raises `ValueError` for an architecture that the cost model does not know."""
    word = text.lower()
    if word in ("", "dense", "moe"):
        return word
    raise ValueError("this architecture is not modelled; dense and moe transformers are")


def catalogue_name(name: str) -> str:
    """The catalogue's name of a model, whatever its case and punctuation; an empty text where there is none."""
    return _catalogue().get(_letters(name), "")


def build_model(row: Row) -> Model:
    """The architecture of a row's given cells. Raises `InputError` that names columns and values."""
    known = _matching(row)
    document: dict[str, Any] = known.model_dump(by_alias=True) if known else {"schema": 1, "family": "", "year": 2020}
    document |= {"name": known.name if known else "columns", "source": "columns of the row", "mtp_layers": 0}
    for column, key in (*WIDTHS.items(), *SWITCHES.items()):
        if column in row and not (known and known.mla and column in ("n_kv_heads", "head_dim")):
            document[key] = bool(row[column]) if column in SWITCHES else int(row[column])
    mixture = _mixture(row, document)
    document["moe"] = mixture
    problems = _complete(document, row)
    if problems:
        raise InputError(problems)
    try:
        return validate(Model, document, "shape")
    except InputError as error:
        raise InputError([_in_columns(problem) for problem in error.problems]) from None


def _matching(row: Row) -> Model | None:
    """The catalogue architecture that a row is."""
    if not row.get("model"):
        return None
    known = _load(row["model"])
    given = {column: row[column] for column in IDENTITY if column in row}
    if any(getattr(known, WIDTHS[column]) != value for column, value in given.items()):
        return None
    experts = known.moe.experts if known.moe else 1
    return known if row.get("n_experts", experts) == experts else None


def _mixture(row: Row, document: dict[str, Any]) -> dict[str, Any] | None:
    if row.get("n_experts", 1) == 1 and row.get("arch") != "moe" and not document.get("moe"):
        return None
    mixture: dict[str, Any] = dict(document.get("moe") or {})
    mixture |= {key: int(row[column]) for column, key in MIXTURE.items() if column in row}
    if "d_expert" not in mixture and document.get("d_ff"):
        mixture["d_expert"] = document["d_ff"]
    if "n_shared_experts" in row and "d_expert" in mixture and row["n_shared_experts"] != mixture.get("shared_experts"):
        mixture["shared_experts"] = int(row["n_shared_experts"])
        mixture["d_shared"] = mixture["shared_experts"] * mixture["d_expert"]
    return mixture


def _complete(document: dict[str, Any], row: Row) -> list[str]:
    """Fill in what follows, and say what is missing or cannot be."""
    document.setdefault("gated_mlp", True)
    document.setdefault("tied_embeddings", False)
    document.setdefault("sequence_length", 1)
    mixture = document["moe"]
    if mixture is not None:
        document.setdefault("d_ff", 0)
    heads, width = document.get("heads"), document.get("d_model")
    if heads and width:
        document.setdefault("kv_heads", heads)
        document.setdefault("head_dim", max(1, width // heads))
    columns = {key: column for column, key in WIDTHS.items()}
    needed = [columns[key] for key in ("layers", "d_model", "heads", "d_ff", "vocab") if key not in document]
    if mixture is not None:
        needed += [column for column, key in MIXTURE.items() if key not in mixture]
    problems = []
    if needed:
        verb = "is" if len(needed) == 1 else "are"
        problems.append(f"{', '.join(needed)} {verb} empty: the shape is needed where model is no catalogue name")
    if document.get("layers", 1) > MOST_LAYERS:
        problems.append(f"n_layers = {document['layers']}: must be at most {MOST_LAYERS}")
    return problems


def _in_columns(problem: str) -> str:
    """A problem of a `Model` in terms of the columns."""
    text = problem.removeprefix("shape: ").removeprefix("document: ")
    names = {"moe.experts": "n_experts", "moe.top_k": "top_k", "kv_heads": "n_kv_heads", "heads": "n_heads"}
    names["layers"] = "n_layers"
    pattern = r"(?<![\w.])(" + "|".join(re.escape(name) for name in names) + r")\b"
    return re.sub(pattern, lambda found: names[found[1]], text)


def _shared(table: Table) -> Array:
    """The shared experts, 0 included; NaN where empty."""
    codes, values = table.parsed("n_shared_experts", _count, None)
    return np.array([np.nan if value is None else value for value in values], dtype=float)[codes]


def _count(text: str) -> float | None:
    if not text:
        return None
    value = float(text) if re.fullmatch(r"\d{1,6}(\.0*)?", text) else -1.0
    if value < 0:
        raise ValueError("must be a whole number from 0")
    return value


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@lru_cache(maxsize=1)
def _catalogue() -> dict[str, str]:
    return {_letters(name): name for name in catalog.names("model")}


@lru_cache(maxsize=1024)
def _load(name: str) -> Model:
    return catalog.load_model(name)
