"""Sampled text held to many schemas, in batches with free requests beside; every text is judged by others' eyes.

    python tests/e2e/generations.py model.gguf 1000      (FORNAX: the program)

A text that ended by itself must validate with PyPI's jsonschema; one that was cut must be the beginning of a valid
one, by `fornax grammar check`. Free requests in the same batches must be equal, log-probabilities included, to what
they are alone."""
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import jsonschema

BATCH = 16
WORDS = ["red", "green", "blue", "señor", "a b", "x\"y", "tab\there", "naïve", "日本", "😀"]


def record(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def short(n=8, least=0):
    return {"type": "string", "maxLength": n, "minLength": least}


def schemas():
    """Fifty, of all kinds."""
    tree = {"$defs": {"t": {"type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9},
            "kids": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/t"}}}, "required": ["v", "kids"],
            "additionalProperties": False}}, "$ref": "#/$defs/t"}
    out = [
        record(name=short(), age={"type": "integer", "minimum": 0, "maximum": 130}), tree,
        record(name=short(12, 1), tags={"type": "array", "items": {"enum": WORDS}, "maxItems": 3, "uniqueItems": True}),
        {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 5}, {"enum": WORDS}, {"const": {"a": [1, None, "ü"]}},
        {"type": "integer", "multipleOf": 7, "minimum": -100, "maximum": 100}, {"type": "number", "exclusiveMinimum": 0, "maximum": 2.5},
        {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$"}, {"type": "string", "format": "date"}, {"type": "string", "format": "ipv4"},
        {"type": "string", "format": "uuid"}, {"type": "string", "format": "time"}, {"type": ["null", "boolean", "integer"], "maximum": 5},
        {"anyOf": [record(a=short(4)), {"type": "integer", "minimum": 3, "maximum": 99}]},
        {"oneOf": [record(kind={"const": "x"}, x={"type": "boolean"}), record(kind={"const": "y"}, y={"type": "null"})]},
        {"allOf": [record(a={"type": "integer"}, b=short(5)), {"properties": {"a": {"minimum": 10, "maximum": 20}}}]},
        {"type": "object", "patternProperties": {"^k[0-9]$": {"type": "boolean"}}, "additionalProperties": False, "maxProperties": 3},
        {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 9}, "maxProperties": 2,
         "propertyNames": {"pattern": "^[a-c]{1,3}$"}},
        {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "dependentRequired": {"a": ["b"]},
         "additionalProperties": False},
        {"type": "array", "prefixItems": [{"const": "p"}, {"type": "null"}], "items": False, "minItems": 2},
        {"type": "array", "contains": {"const": 3}, "items": {"type": "integer", "minimum": 1, "maximum": 4}, "maxItems": 4, "minItems": 1},
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 20}, "uniqueItems": True, "maxItems": 4},
        {"if": {"properties": {"t": {"const": "a"}}, "required": ["t"]}, "then": {"required": ["u"]}, "type": "object",
         "properties": {"t": {"enum": ["a", "b"]}, "u": {"type": "boolean"}}, "additionalProperties": False},
        {"not": {"type": "object"}, "type": ["integer", "object"], "minimum": 0, "maximum": 1000},
        {"type": "string", "not": {"const": "red"}, "enum": ["red", "green"]},
        record(q={"type": "string", "pattern": "^[a-z]+( [a-z]+){0,3}\\.$", "maxLength": 30}),
        record(**{"a\"b": {"type": "boolean"}, "naïve 😀": {"type": "null"}, "back\\slash": short(3)}),
        record(deep=record(er=record(and_er=record(still={"enum": [1, 2, 3]})))),
        {"type": "array", "items": record(id={"type": "integer", "minimum": 1, "maximum": 999}, ok={"type": "boolean"}), "maxItems": 3},
    ]
    for i in range(50 - len(out)):
        fields = {f"f{k}": [short(i % 7 + 1), {"type": "integer", "minimum": -i, "maximum": 10 * i}, {"type": "boolean"},
                            {"enum": WORDS[: i % 9 + 1]}, {"type": "array", "items": short(3), "maxItems": i % 4}][(i + k) % 5]
                  for k in range(1 + i % 6)}
        s = record(**fields)
        s["required"] = list(fields)[: i % 4]
        out.append(s)
    return out


def body_of(i, schema):
    return {"messages": [{"role": "user", "content": f"Answer number {i}, please."}], "temperature": 1.5, "seed": i,
            "max_tokens": (12, 60, 200)[i % 3], "n": 1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}


def free_body(i):
    return {"messages": [{"role": "user", "content": f"Tell me about {i}."}], "temperature": 1, "seed": i, "max_tokens": 24,
            "logprobs": True, "top_logprobs": 2}


def essence(choice):
    return choice["message"]["content"], choice["finish_reason"], choice["logprobs"]


def ask(server, body):
    status, r = server.post("/v1/chat/completions", body)
    assert status == 200, (r, body)
    return r["choices"][0]


def is_beginning(program, schema, text):
    """Whether the text can go on to be of the language that is generated: in the schema's order, without needless digits."""
    with tempfile.TemporaryDirectory() as d:
        paths = [os.path.join(d, n) for n in ("s.json", "t")]
        for path, what in zip(paths, (json.dumps(schema), text.rstrip("\ufffd"))):
            with open(path, "w", encoding="utf-8", newline="") as f:
                f.write(what)
        r = subprocess.run([program, "grammar", "check", "--declared-order", "--plain-numbers", "--schema", *paths],
                           capture_output=True, text=True, timeout=60)
        return "refused at byte" not in r.stdout and r.stdout.count("\n") == 2, r.stdout + r.stderr


def judge(program, schema, choice, counts):
    text = choice["message"]["content"] or ""
    if choice["finish_reason"] == "stop":
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
    else:
        ok, why = is_beginning(program, schema, text)
        assert choice["finish_reason"] == "length" and ok, (schema, text, why)
    counts[choice["finish_reason"]] += 1


def run(server, program, n):
    """Counts of texts that ended and that were cut, and of free ones that were compared."""
    all_schemas, counts = schemas(), {"stop": 0, "length": 0, "free": 0}
    alone = {}
    with ThreadPoolExecutor(BATCH) as pool:
        for first in range(0, n, BATCH - 2):
            ids = range(first, min(first + BATCH - 2, n))
            held = [(i, pool.submit(ask, server, body_of(i, all_schemas[i % 50]))) for i in ids]
            beside = [(k, pool.submit(ask, server, free_body(k))) for k in (first % 10, 10 + first % 7)]
            for i, f in held:
                judge(program, all_schemas[i % 50], f.result(), counts)
            for k, f in beside:
                c = f.result()
                if k not in alone:
                    alone[k] = essence(ask(server, free_body(k)))
                assert essence(c) == alone[k], (k, c, alone[k])
                counts["free"] += 1
    return counts


def main():
    from conftest import FORNAX, Server
    server = Server(sys.argv[1])
    try:
        print(run(server, FORNAX, int(sys.argv[2])))
    finally:
        server.process.terminate()


if __name__ == "__main__":
    main()
