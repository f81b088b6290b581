"""An agent of the OpenAI Agents SDK whose shell is a sandbox. Nothing in it is about Aether:
E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY say where the daemon is, and OPENAI_BASE_URL,
OPENAI_API_KEY and OPENAI_MODEL which model decides."""
import asyncio
import os

from agents import OpenAIChatCompletionsModel, RunConfig, Runner, set_tracing_disabled
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions, E2BSandboxType
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Shell
from openai import AsyncOpenAI

set_tracing_disabled(True)


async def main():
    model = OpenAIChatCompletionsModel(os.environ.get("OPENAI_MODEL", "gpt-5"), AsyncOpenAI())
    agent = SandboxAgent(name="calculator", instructions="Use the shell to calculate, and say the result alone.", model=model, capabilities=[Shell()],
                         default_manifest=Manifest(root="/home/user/workspace"))  # where its user may write
    sandbox = SandboxRunConfig(client=E2BSandboxClient(), options=E2BSandboxClientOptions(sandbox_type=E2BSandboxType.E2B))
    result = await Runner.run(agent, "Say hello from 6 times 7.", run_config=RunConfig(sandbox=sandbox))
    print(result.final_output)


asyncio.run(main())
