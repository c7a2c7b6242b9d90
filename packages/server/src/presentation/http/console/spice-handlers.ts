// What a SPICE viewer needs to reach a VM's screen, as its connection file: the address is a ticket that our proxy
// understands, and the certificate is checked by its subject instead.
import { X509Certificate } from "node:crypto";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeCalls } from "../../../application/node/call-agent.ts";

export interface SpiceTickets {
  issueSpice(vmid: number, node: string): string;
  verifySpice(ticket: string): { readonly vmid: number; readonly node: string } | undefined;
}

export interface SpiceHandlerDeps {
  readonly calls: NodeCalls;
  readonly localNode: string;
  readonly tickets: SpiceTickets;
  readonly certificate: () => string;
  readonly caPem: () => string;
  /** Where the proxy listens; undefined = it does not. */
  readonly proxy: () => { readonly host: string; readonly port: number } | undefined;
}

/** Viewers want one; behind the proxy there is no port but a socket of the VM's own. */
export const SPICE_PORT = 61_000;

export function createSpiceHandlers(deps: SpiceHandlerDeps): PveHandlers {
  return {
    "POST /nodes/{node}/qemu/{vmid}/spiceproxy": async ({ node, vmid, proxy }, ctx) => {
      const name = node === "localhost" ? deps.localNode : node;
      const listening = deps.proxy();
      if (listening === undefined)
        throw new AppError("feature.unsupported", "this server's SPICE proxy is switched off");
      const { data: offer } = await deps.calls.call(
        node,
        "POST /gpve/nodes/{node}/vms/{vmid}/spice",
        { vmid },
        ctx,
      );
      const { password, title } = offer;
      const host = proxy ?? listening.host;
      return {
        type: "spice",
        title,
        host: deps.tickets.issueSpice(vmid, name),
        proxy: `http://${host.includes(":") ? `[${host}]` : host}:${listening.port}`,
        "tls-port": SPICE_PORT,
        "host-subject": spiceSubject(deps.certificate()),
        ca: deps.caPem().trimEnd().replaceAll("\n", "\\n").concat("\\n"),
        password,
        "delete-this-file": 1,
        "secure-attention": "Ctrl+Alt+Ins",
        "toggle-fullscreen": "Shift+F11",
        "release-cursor": "Ctrl+Alt+R",
      };
    },
  };
}

/** "O=role,CN=name", in the certificate's own order; commas inside values are escaped. */
export function spiceSubject(certPem: string): string {
  return new X509Certificate(certPem).subject
    .split("\n")
    .map((line) => line.replaceAll(",", "\\,"))
    .join(",");
}
