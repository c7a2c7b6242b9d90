import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { Joins } from "./joins.ts";

class Connection extends EventEmitter {
  bytesRead = 3_000;
  destroyed = false;
  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }
}

function open() {
  const clock = new FakeClock();
  const joins = new Joins({ ms: 10_000, bytes: 1_000 }, clock);
  const begin = () => {
    const connection = new Connection();
    joins.begin(connection as unknown as Socket);
    return connection;
  };
  return { clock, joins, begin };
}

test("a peer that joins has its time, however busy it looks", async () => {
  const { clock, begin } = open();
  const first = begin();
  await clock.advance(5_000);
  const second = begin();
  first.bytesRead += 900;
  await clock.advance(4_999);
  expect(first.destroyed).toBe(false);
  await clock.advance(250);
  expect([first.destroyed, second.destroyed]).toEqual([true, false]);
  await clock.advance(5_000);
  expect(second.destroyed).toBe(true);
});

test("a peer that joins has so many bytes, those of its handshake not counted", async () => {
  const { clock, begin } = open();
  const connection = begin();
  connection.bytesRead += 1_000;
  await clock.advance(500);
  expect(connection.destroyed).toBe(false);
  connection.bytesRead += 1;
  await clock.advance(250);
  expect(connection.destroyed).toBe(true);
});

test("nobody is watched after the end", async () => {
  const { clock, joins, begin } = open();
  const connection = begin();
  joins.close();
  await clock.advance(60_000);
  expect(connection.destroyed).toBe(false);
});
