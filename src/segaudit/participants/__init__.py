"""A participants table: who each row is about, its attributes on demand, and its join to cases by key."""

from segaudit.participants.base import AttributeValues as AttributeValues
from segaudit.participants.base import Participants as Participants
from segaudit.participants.dictionaries import ColumnNotes as ColumnNotes
from segaudit.participants.dictionaries import read_dictionary as read_dictionary
from segaudit.participants.dictionaries import read_json as read_json
from segaudit.participants.join import Joined as Joined
from segaudit.participants.join import join_participants as join_participants
from segaudit.participants.join import patients_by_rule as patients_by_rule
from segaudit.participants.join import stem as stem
from segaudit.participants.reading import participants_from as participants_from
from segaudit.participants.reading import read_participants as read_participants
