"""The OpenAPI document is a valid one, by the rules of the version that it names."""

import sys

import requests
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

document = requests.get(sys.argv[1] + "/openapi.json", timeout=300).json()
assert document["openapi"].startswith("3.1."), document["openapi"]
validate(document, cls=OpenAPIV31SpecValidator)
print("all checks held")
