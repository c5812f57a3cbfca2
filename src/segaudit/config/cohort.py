"""cohort.toml: who is in the cohort, what is known of them, and where the outlines lie."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from segaudit.config.base import Strict

Text = Annotated[StrictStr, Field(min_length=1)]
LabelValue = Annotated[StrictInt, Field(ge=1)]  # 0 is the background
MaskKind = Literal["expert", "expert-revised machine draft", "consensus", "machine", "unknown"]
LabelTable = dict[Text, LabelValue | Annotated[list[LabelValue], Field(min_length=1)]]


class ParticipantsEntry(Strict):
    """The participants table; without `file`, only the rule from case to patient."""

    file: Text | None = None
    key: Text | None = None
    patient: Text | None = None
    sheet: Text | None = None
    delimiter: Annotated[StrictStr, Field(min_length=1, max_length=1)] | None = None
    encoding: Text | None = None
    sidecar: Text | StrictBool = True
    case_to_patient: Text | None = None

    @model_validator(mode="after")
    def _needs_a_file(self) -> ParticipantsEntry:
        given = [
            name for name in ("key", "patient", "sheet", "delimiter", "encoding") if getattr(self, name) is not None
        ]
        if self.file is None and (given or self.case_to_patient is None):
            raise ValueError(f"there is no file{' for ' + ', '.join(given) if given else ''}")
        return self


class AttributeEntry(Strict):
    """An attribute: what is left out is inferred from its name and the data dictionary."""

    column: Text | None = None
    of: Literal["patient", "case"] | None = None
    kind: Literal["level", "number", "age"] | None = None
    values: dict[StrictStr, Text] = {}
    missing: list[StrictStr] | dict[StrictStr, Text] = []


class MissingEntry(BaseModel):
    """Missing codes and their reasons; they extend the usual ones, or replace them."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Text] = Field(init=False)

    extend: StrictBool = True


class MaskSetEntry(Strict):
    """Outlines of one maker: a folder of files, one a case, or a table that lists the files."""

    name: Text
    folder: Text | None = None
    pattern: Text | None = None
    files: Text | None = None
    kind: MaskKind = "unknown"
    made_by: StrictStr = ""
    trained_on: list[Text] | Text | None = None
    labels: LabelTable | None = None
    ignore: StrictInt | None = None

    @model_validator(mode="after")
    def _lies_in_one_place(self) -> MaskSetEntry:
        if (self.folder is None) == (self.files is None):
            raise ValueError("give folder or files" + (", not both" if self.files is not None else ""))
        if self.files is not None and self.pattern is not None:
            raise ValueError("a pattern needs a folder")
        return self


class ExcludeEntry(Strict):
    """Cases left out, and why."""

    case: Text | None = None
    cases: list[Text] = []
    rule: Text = "excluded by hand"
    reason: Text

    @model_validator(mode="after")
    def _names_a_case(self) -> ExcludeEntry:
        if self.case is None and not self.cases:
            raise ValueError("name the case or the cases")
        return self


class CohortFile(Strict):
    """The whole of cohort.toml."""

    name: Text | None = None
    cases_from: Literal["masks", "participants"] = "masks"
    participants: ParticipantsEntry | None = None
    attributes: dict[Text, AttributeEntry] | None = None
    missing: MissingEntry = MissingEntry()
    labels: LabelTable = {}
    labels_from: Text | None = None
    mask_sets: list[MaskSetEntry] = []
    models: list[Text] = []
    rulers: list[Text] = []
    images: Text | None = None
    exclude: list[ExcludeEntry] = []
    excluded: Text | None = None

    @field_validator("mask_sets")
    @classmethod
    def _names_differ(cls, entries: list[MaskSetEntry]) -> list[MaskSetEntry]:
        names = [entry.name for entry in entries]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two mask sets are named '{twice[0]}'")
        return entries

    @field_validator("labels")
    @classmethod
    def _macro_is_taken(cls, labels: LabelTable) -> LabelTable:
        if "macro" in labels:
            raise ValueError("'macro' cannot name a label: it is the mean over the labels")
        return labels

    @model_validator(mode="after")
    def _roles_are_known(self) -> CohortFile:
        unknown = sorted({*self.models, *self.rulers} - {entry.name for entry in self.mask_sets})
        if unknown:
            raise ValueError(f"'{unknown[0]}' in models or rulers is no mask set")
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> CohortFile:
        if self.labels and self.labels_from is not None:
            raise ValueError("give labels or labels_from, not both")
        if self.attributes and (self.participants is None or self.participants.file is None):
            raise ValueError("attributes need a participants file")
        if not self.mask_sets and (self.participants is None or self.participants.file is None):
            raise ValueError("name a participants file or a mask set")
        if self.cases_from == "participants":
            if self.participants is None or self.participants.file is None:
                raise ValueError("cases_from participants needs a participants file")
            if self.participants.case_to_patient is not None:
                raise ValueError("with case_to_patient the rows name patients: they cannot name the cases, too")
        return self
