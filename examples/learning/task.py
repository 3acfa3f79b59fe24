"""The task: the policy writes a digit into a file, by one call of the tool terminal."""

DIGITS = "123456789"
SYSTEM = "Tools: terminal"
CALL = '<tool_call>{"name": "terminal", "arguments": {"command": "echo %s > n.txt"}}</tool_call>'
RESULT = (
    '<tool_response>{"success": true, "output": "", "uniq_id": "call_1_1", "metadata": '
    '{"exit_code": 0, "sandboxed": true, "network_isolated": true}}</tool_response>'
)


def instruction(digit: str) -> str:
    return f"Write {digit} into n.txt"


def verifier(digit: str) -> str:
    return f'test "$(cat n.txt)" = {digit}'


def demonstration(asked: str, written: str) -> list[dict[str, str]]:
    texts = [SYSTEM, instruction(asked), CALL % written, RESULT, "Done."]
    roles = ["system", "user", "assistant", "user", "assistant"]

    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
