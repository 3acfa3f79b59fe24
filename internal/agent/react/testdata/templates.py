"""Renders the chat templates of the package trl as tokens.

Each line of the input is {"template": NAME, "messages": [...]}. Each line of the output is {"tokens": [...]},
or {"error": TEXT} where the template refuses the messages. The first line of the output lists the names.
"""

import importlib.util
import json
import pathlib
import re
import sys
from datetime import datetime

from jinja2 import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """The block with which a template marks replies."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def refuse(message):
    raise TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


# A special token is one token. All else is split into spaces, words and signs: as in a real tokenizer, spaces
# on both sides of a border between messages are one token.
SPECIAL = r"<[|｜][^<>\n]{1,40}[|｜]>|</?[a-z_]+[|]>|<[|]?[a-z_]+[|]?>|</[a-z_]+>|\[/?[A-Z_]+\]|</?s>"
TOKEN = re.compile(SPECIAL + r"|\s+|\w+|[^\w\s]")


def main():
    package = importlib.util.find_spec("trl")
    folder = pathlib.Path(package.submodule_search_locations[0]) / "chat_templates"

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = datetime(2026, 1, 2).strftime

    templates = {path.stem: environment.from_string(path.read_text()) for path in folder.glob("*.jinja")}
    print(json.dumps(sorted(templates)), flush=True)

    for line in sys.stdin:
        request = json.loads(line)
        try:
            text = templates[request["template"]].render(
                messages=request["messages"], add_generation_prompt=True, bos_token="<s>", eos_token="</s>"
            )
            answer = {"tokens": TOKEN.findall(text)}
        except Exception as error:  # a template may fail in any way
            answer = {"error": str(error)}

        print(json.dumps(answer), flush=True)


main()
