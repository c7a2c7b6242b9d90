// Metrics have a listener of their own: who may scrape is decided by the network, not by PVE's permissions.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { FailureLog } from "../background.ts";
import { METRICS_CONTENT_TYPE, type Metrics } from "./metrics.ts";

export interface MetricsListenerOptions {
  /** "127.0.0.1:9090", "[::1]:9090", or ":9090" for all addresses. */
  readonly address: string;
  /** Default "/metrics". */
  readonly path?: string;
  readonly metrics: Metrics;
  readonly log: FailureLog;
}

export interface MetricsListener {
  /** Where it really listens, with the port chosen when 0 was asked for. */
  readonly url: string;
  close(): Promise<void>;
}

export async function startMetricsListener(options: MetricsListenerOptions): Promise<MetricsListener> {
  const { metrics, log, path = "/metrics" } = options;
  const { host, port } = parseAddress(options.address);
  let rendering: Promise<string> | undefined;
  // Scrapers that come at the same moment share one rendering.
  const render = (): Promise<string> => {
    rendering ??= metrics.render().finally(() => {
      rendering = undefined;
    });
    return rendering;
  };
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 10_000 }, (request, response) => {
    const [wanted] = (request.url ?? "").split("?");
    if (wanted !== path) {
      response.writeHead(404, { "content-type": "text/plain" }).end(`metrics are at ${path}\n`);
      return;
    }
    if (request.method !== "GET" && request.method !== "HEAD") {
      response.writeHead(405, { allow: "GET, HEAD" }).end();
      return;
    }
    render().then(
      (text) => response.writeHead(200, { "content-type": METRICS_CONTENT_TYPE }).end(text),
      (err: unknown) => {
        log.error({ err: messageOf(err) }, "cannot render metrics");
        response.writeHead(500).end();
      },
    );
  });
  server.maxConnections = 64;
  const listening = once(server, "listening");
  server.listen(port, host);
  try {
    await listening;
  } catch (err) {
    throw new AppError("config.invalid", `metrics cannot listen on ${options.address}: ${messageOf(err)}`, {
      cause: err,
    });
  }
  const bound = server.address() as AddressInfo;
  const shownHost = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
  return {
    url: `http://${shownHost}:${bound.port}${path}`,
    close: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function parseAddress(address: string): { host: string | undefined; port: number } {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:\s]*)):(\d{1,5})$/.exec(address);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) {
    throw new AppError("config.invalid", `metrics.address "${address}" is not HOST:PORT`);
  }
  const host = match[1] ?? match[2];
  return { host: host === "" ? undefined : host, port };
}
