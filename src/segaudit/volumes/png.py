"""PNG label maps: chunks, checksums and sizes are checked here, and Pillow is given only what holds pixels."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from segaudit.errors import Finding
from segaudit.volumes.faults import finding, refusal
from segaudit.volumes.grids import Grid, Labels, as_tuples

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_START = len(SIGNATURE) + 25  # signature and the chunk IHDR
_BLOCK = 1 << 20
_FEED = 1 << 16
_MAX_INFLATION = 1032
_GREY, _RGB, _PALETTE, _GREY_ALPHA, _RGBA = 0, 2, 3, 4, 6
_CHANNELS = {_GREY: 1, _RGB: 3, _PALETTE: 1, _GREY_ALPHA: 2, _RGBA: 4}
_DEPTHS = {_GREY: (1, 2, 4, 8, 16), _PALETTE: (1, 2, 4, 8), _RGB: (8, 16), _GREY_ALPHA: (8, 16), _RGBA: (8, 16)}
# First column and row, and steps between columns and rows, of the seven passes of an interlaced file.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


@dataclass(frozen=True, slots=True)
class _Image:
    width: int
    height: int
    depth: int  # bits a channel
    colour: int
    interlaced: int
    header: bytes

    @property
    def size(self) -> int:
        """Bytes of the pixels in the file, before compression: rows of whole bytes, each after one of its filter."""
        total = 0
        for x, y, step_x, step_y in _PASSES if self.interlaced else ((0, 0, 1, 1),):
            columns, rows = -((x - self.width) // step_x), -((y - self.height) // step_y)
            if columns > 0:
                total += max(rows, 0) * ((columns * self.depth * _CHANNELS[self.colour] + 7) // 8 + 1)
        return total

    @property
    def size_in_memory(self) -> int:
        return self.height * self.width * _CHANNELS[self.colour] * max(1, self.depth // 8)

    @property
    def grid(self) -> Grid:
        return Grid((self.height, self.width), as_tuples(np.eye(4)), "px", oriented=False)


def read_grid(file: BinaryIO, path: Path) -> Grid:
    """Return the grid of a PNG file, in pixels, from its first bytes."""
    return _header(file.read(_START), path).grid


def read_pixels(file: BinaryIO, size: int, path: Path, max_bytes: int) -> tuple[Labels, Grid, list[Finding]]:
    """Return the labels (rows, columns), the grid in pixels and the findings of a PNG file.

    Raises
    ------
    AuditError
        IMAGE_NOT_PNG, IMAGE_TRUNCATED, IMAGE_CORRUPT, IMAGE_TOO_LARGE, IMAGE_DIMENSIONS or IMAGE_COLOUR.
    """
    image = _header(file.read(_START), path)
    if image.size_in_memory > max_bytes:
        message = f"{image.width} x {image.height} pixels are more than max_bytes = {max_bytes} bytes."
        raise refusal("IMAGE_TOO_LARGE", message, path)
    if image.size > _MAX_INFLATION * size:
        message = f"{image.width} x {image.height} pixels cannot be held by a file of {size} bytes."
        raise refusal("IMAGE_TRUNCATED", message, path)
    chunks, findings = _checked_chunks(file, size, path, most=2 * image.size + _BLOCK)
    _check_size(chunks[b"IDAT"], image.size, path)
    labels = _as_labels(_decoded(image, chunks, path), image, path)
    findings.append(finding("IMAGE_PIXELS", "PNG states no spacing in mm; lengths are in pixels.", path))
    return labels, image.grid, findings


def _header(start: bytes, path: Path) -> _Image:
    if len(start) < _START:
        raise refusal("IMAGE_TRUNCATED", f"the PNG file ends after {len(start)} bytes.", path)
    length, name, *fields, crc = struct.unpack(">I4sIIBBBBBI", start[len(SIGNATURE) :])
    if (length, name) != (13, b"IHDR") or crc != zlib.crc32(start[12:29]):
        raise refusal("IMAGE_CORRUPT", "the PNG header (IHDR) is damaged.", path)
    width, height, depth, colour, _, _, interlaced = fields
    image = _Image(width, height, depth, colour, interlaced, start[16:29])
    if depth not in _DEPTHS.get(colour, ()) or not (width and height and interlaced <= 1):
        message = (
            f"no PNG has {image.width} x {image.height} pixels of {image.depth} bits in colour type {image.colour}."
        )
        raise refusal("IMAGE_NOT_PNG", message, path)
    return image


def _checked_chunks(file: BinaryIO, size: int, path: Path, most: int) -> tuple[dict[bytes, bytes], list[Finding]]:
    """Return palette and packed pixels; every chunk is checked against its checksum, others are passed over."""
    file.seek(len(SIGNATURE))
    kept = {b"PLTE": bytearray(), b"IDAT": bytearray()}
    name = b""
    while name != b"IEND":
        head = file.read(8)
        length, name = struct.unpack(">I4s", head) if len(head) == 8 else (size, b"")
        if file.tell() + length + 4 > size:
            raise refusal("IMAGE_TRUNCATED", "the PNG file ends before its last chunk (IEND).", path)
        if name == b"acTL":
            raise refusal("IMAGE_DIMENSIONS", "the PNG file is an animation of several images.", path)
        if name in kept and len(kept[name]) + length > most:
            raise refusal("IMAGE_DIMENSIONS", "the PNG file holds far more data than its pixels take.", path)
        crc, left = zlib.crc32(name), length
        while left:
            block = file.read(min(left, _BLOCK))
            crc, left = zlib.crc32(block, crc), left - len(block)
            if name in kept:
                kept[name] += block
        if file.read(4) != crc.to_bytes(4, "big"):
            raise refusal("IMAGE_CORRUPT", f"PNG checksum mismatch in chunk {name!r}.", path)
    after = size - file.tell()
    message = f"{after} bytes follow the end of the PNG image."
    found = [finding("IMAGE_TRAILING_BYTES", message, path)] if after else []
    return {name: bytes(data) for name, data in kept.items()}, found


def _check_size(packed: bytes, expected: int, path: Path) -> None:
    """Refuse pixels that do not inflate to exactly their size: Pillow leaves the missing ones at 0 and says nothing."""
    inflater = zlib.decompressobj()
    count = 0
    try:
        for start in range(0, len(packed), _FEED):
            block = packed[start : start + _FEED]
            piece = b"-"
            while (block or piece) and not inflater.eof and count <= expected:
                piece = inflater.decompress(block, _BLOCK)
                block = inflater.unconsumed_tail
                count += len(piece)
    except zlib.error as error:
        raise refusal("IMAGE_CORRUPT", f"the PNG pixels cannot be inflated: {error}.", path) from None
    if count != expected or not inflater.eof:
        relation = "more" if count > expected else "fewer"
        raise refusal("IMAGE_CORRUPT", f"the PNG file holds {relation} pixels than its header declares.", path)


def _decoded(image: _Image, chunks: dict[bytes, bytes], path: Path) -> npt.NDArray[Any]:
    # The class itself, not Image.open: the limit on pixels is ours, and Pillow's is a global of the program.
    from PIL.PngImagePlugin import PngImageFile

    stream = io.BytesIO()
    stream.write(SIGNATURE)
    for name, data in {b"IHDR": image.header, **chunks, b"IEND": b""}.items():
        if data or name == b"IEND":
            stream.write(struct.pack(">I4s", len(data), name) + data + zlib.crc32(name + data).to_bytes(4, "big"))
    stream.seek(0)
    try:
        with PngImageFile(stream) as decoded:
            return np.asarray(decoded)
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error) as error:
        raise refusal("IMAGE_CORRUPT", f"the PNG pixels cannot be decoded: {error}.", path) from None


def _as_labels(pixels: npt.NDArray[Any], image: _Image, path: Path) -> Labels:
    """Return one whole number a pixel as stored: grey value, palette index, or the common value of equal channels."""
    if image.depth == 16 and image.colour != _GREY:
        raise refusal("IMAGE_COLOUR", "the PNG file has 16-bit colours or an alpha channel.", path)
    if pixels.ndim == 3:
        opaque = image.colour == _RGB or bool((pixels[..., -1] == 255).all())
        values = pixels[..., : pixels.shape[-1] - (image.colour != _RGB)]
        if not opaque or (values != values[..., :1]).any():
            raise refusal("IMAGE_COLOUR", "the PNG file has colours or transparency, not one number a pixel.", path)
        pixels = np.ascontiguousarray(values[..., 0])
    if image.colour == _GREY and image.depth < 8:
        # Pillow stretches 2 and 4 bits over 0 to 255, and gives 1 bit as truth values.
        pixels = pixels.astype(np.uint8) // np.uint8({1: 1, 2: 85, 4: 17}[image.depth])
    return pixels
