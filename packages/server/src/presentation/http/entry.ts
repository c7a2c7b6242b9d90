// Every HTTP/1.1 request enters here and goes to one of the two faces.
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { background } from "@gpve/kit/background.ts";
import { clientNetwork, plainAddress } from "@gpve/kit/net/client-network.ts";
import { withTraceparent } from "@gpve/kit/telemetry/traceparent.ts";
import { clientAddressOf, type IsProxy } from "../listener/trusted-proxies.ts";
import type { PveApi } from "./pve/pve-api.ts";
import { respond } from "./respond.ts";

export type ApiHandler = (
  req: IncomingMessage,
  res: ServerResponse,
  info: { clientAddress: string },
) => Promise<void>;

export interface EntryDeps {
  readonly pve: PveApi;
  readonly v1: ApiHandler;
  readonly log: RequestLogger;
  /** Whose X-Forwarded-For is honoured. */
  readonly isProxy: IsProxy;
}

/** Requests under way for one address behind a proxy; a proxy's connections are many people's. */
const MAX_FORWARDED = 256;

const LANDING = Buffer.from(
  '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>gpve</title></head><body><h1>gpve</h1>' +
    "<p>This server speaks two APIs:</p><ul>" +
    '<li><a href="/api2/html/version">/api2</a>, the Proxmox VE API</li>' +
    '<li><a href="/api/v1">/api/v1</a>, described by <a href="/api/v1/openapi.json">its OpenAPI document</a></li></ul>' +
    "<p>From a terminal: <code>./gpve ctl --help</code></p></body></html>",
);

export function createEntry(deps: EntryDeps): RequestListener {
  const forwarded = new Map<string, number>();
  return (req, res) => {
    const clientAddress = clientAddressOf(req, deps.isProxy);
    res.on("error", () => req.socket.destroy());
    if (deps.isProxy(plainAddress(req.socket.remoteAddress ?? ""))) {
      const client = clientNetwork(clientAddress);
      const count = (forwarded.get(client) ?? 0) + 1;
      if (count > MAX_FORWARDED) {
        req.socket.destroy();
        return;
      }
      forwarded.set(client, count);
      res.on("close", () => {
        const left = (forwarded.get(client) ?? 1) - 1;
        if (left === 0) forwarded.delete(client);
        else forwarded.set(client, left);
      });
    }
    if (deps.pve.answerReady(req, res)) return;
    const parent = req.headers["traceparent"];
    const work = () => handle(deps, req, res, clientAddress);
    background(deps.log, "request", withTraceparent(typeof parent === "string" ? parent : undefined, work));
  };
}

async function handle(
  deps: EntryDeps,
  req: IncomingMessage,
  res: ServerResponse,
  clientAddress: string,
): Promise<void> {
  const url = req.url ?? "";
  try {
    if (url === "/api/v1" || url.startsWith("/api/v1/") || url.startsWith("/api/v1?")) {
      await deps.v1(req, res, { clientAddress });
    } else if (url.startsWith("/api2")) {
      await deps.pve(req, res, clientAddress);
    } else if (url === "/" && req.method === "GET") {
      await respond(req, res, { status: 200, contentType: "text/html;charset=UTF-8", body: LANDING });
    } else {
      req.resume();
      const text = `no such file '${url.split("?", 1)[0] ?? ""}'; the APIs are below /api2 and /api/v1`;
      await respond(req, res, { status: 404, reason: "no such file", body: Buffer.from(text) });
    }
  } catch (err) {
    deps.log.error({ err: messageOf(err), url: url.split("?", 1)[0] }, "request failed outside its handler");
    if (res.headersSent) res.destroy();
    else await respond(req, res, { status: 500, reason: "internal error" });
  }
}
