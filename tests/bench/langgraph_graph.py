"""The graph that LangGraph's development server runs for the races: one node, again and again, a superstep for each action."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from langgraph.graph import START, StateGraph

from tests.bench.racing import ACTION_S, Reporter

reporter = Reporter()


class State(TypedDict):
    race: str
    done: int


async def act(state: State) -> dict[str, int]:
    reporter.action(state["race"])
    try:
        await asyncio.sleep(ACTION_S)
    except asyncio.CancelledError:
        reporter.heard(state["race"])
        raise
    return {"done": state["done"] + 1}


builder = StateGraph(State)
builder.add_node("act", act)
builder.add_edge(START, "act")
builder.add_edge("act", "act")
graph = builder.compile()
