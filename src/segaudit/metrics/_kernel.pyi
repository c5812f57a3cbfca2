from typing import Any

from numpy.typing import NDArray

def score(
    prediction: NDArray[Any],
    reference: NDArray[Any],
    our_codes: NDArray[Any],
    their_codes: NDArray[Any],
    our_members: NDArray[Any],
    their_members: NDArray[Any],
    sizes: NDArray[Any],
    confusion: NDArray[Any],
    ignored: NDArray[Any],
    boxes: NDArray[Any],
    hd95: NDArray[Any],
    pieces: NDArray[Any],
    shape: tuple[int, int, int],
    order: tuple[int, int, int],
    step_mm: tuple[float, float, float],
    ignore: int,
    flat: bool,
    boundary: bool,
    components: bool,
    /,
) -> None: ...
def count(voxels: NDArray[Any], values: NDArray[Any], counts: NDArray[Any], /) -> int: ...
def renumber(voxels: NDArray[Any], known: NDArray[Any], codes: NDArray[Any], out: NDArray[Any], /) -> None: ...
