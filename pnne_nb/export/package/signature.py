"""Signs packages with OpenSSF model-signing, if it is installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from pnne_nb.errors import ExportError, shown


def require_signing(key: Path) -> None:
    """Raise an error if signing is not possible, before any work is done.

    Raises:
        ExportError: If model-signing is not installed, or there is no such key.
    """
    if find_spec("model_signing") is None:
        raise ExportError(
            "sign needs OpenSSF model-signing, which is not installed: pip install model-signing pyopenssl"
        )
    if not key.is_file():
        raise ExportError(
            f"sign must be the path of a private key in PEM format, and there is no file {shown(str(key))}."
        )


def sign_package(path: Path, key: Path) -> Path:
    """Sign a package; `model_signing verify key PATH --signature PATH.sig --public_key ...` checks it.

    Returns:
        The signature's path, beside the package: ``<path>.sig``.

    Raises:
        ExportError: If it cannot be signed; the package stays.
    """
    signature = path.with_name(f"{path.name}.sig")
    try:
        config = import_module("model_signing.signing").Config()
        config.use_elliptic_key_signer(private_key=key).sign(path, signature)
    except Exception as error:  # of a foreign package
        raise ExportError(f"{shown(str(path))} was written, but cannot be signed: {error}") from error
    return signature
