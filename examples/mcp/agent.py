"""An agent over `aether mcp`: OpenAI's package asks the model, the protocol's package calls
the tools, and the sandboxes that they make end with it.

    pip install openai mcp
    OPENAI_API_KEY=... python3 agent.py 'Which primes are below 50? Compute them.'
"""

import asyncio
import json
import os
import subprocess
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from openai import AsyncOpenAI

# The tools as OpenAI's strict mode has them.
TOOLS = json.loads(subprocess.check_output(["aether", "tools", "--format", "openai-responses", "--profile", "compact"]))


async def work(task: str, aether: ClientSession) -> None:
    model, turns = AsyncOpenAI(), [{"role": "user", "content": task}]
    while True:
        response = await model.responses.create(model="gpt-5", tools=TOOLS, input=turns)
        turns += response.output
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            print(response.output_text)
            return
        for call in calls:
            # A call that failed answers with its class and what to do next: the model is told that too.
            answer = await aether.call_tool(call.name, json.loads(call.arguments))
            turns.append({"type": "function_call_output", "call_id": call.call_id, "output": answer.content[0].text})


async def main() -> None:
    server = StdioServerParameters(command="aether", args=["mcp"], env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as aether:
        await aether.initialize()
        await work(sys.argv[1], aether)


asyncio.run(main())
