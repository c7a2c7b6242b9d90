import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { mergePrinted } from "./merge-printed.ts";

const data = { "certificate-authority-data": "Q0E=" };
const cluster = { server: "https://gpve:8006", "tls-server-name": "demo.default.vc.gpve", ...data };
const printed = (over: object = {}, user: object = { "client-certificate-data": "Q1JU" }): string =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "demo", cluster: { ...cluster, ...over } }],
    users: [{ name: "joe@pve@demo", user }],
    contexts: [{ name: "demo", context: { cluster: "demo", user: "joe@pve@demo" } }],
    "current-context": "demo",
  });
type Names = Readonly<Record<"clusters" | "users" | "contexts", readonly { readonly name: string }[]>>;
const names = (text: string) => {
  const { clusters, users, contexts } = parse(text) as Names;
  return [clusters, users, contexts].map((list) => list.map(({ name }) => name));
};

describe("a kubeconfig that was printed", () => {
  test("is merged as it was printed, and once", () => {
    const first = mergePrinted("", printed());
    expect(first.contextName).toBe("demo");
    expect(parse(first.text)).toEqual(JSON.parse(printed()));
    const newer = printed({}, { "client-certificate-data": "TkVX" });
    expect(parse(mergePrinted(first.text, newer).text)).toEqual(JSON.parse(newer));
  });

  test("leaves what is of other clusters, and their comments", () => {
    const existing = "# mine\nclusters:\n  # the lab\n  - name: lab\n    cluster: {server: https://lab}\n";
    const { text } = mergePrinted(existing, printed());
    expect([text.includes("# mine"), text.includes("# the lab")]).toEqual([true, true]);
    expect(names(text)).toEqual([["lab", "demo"], ["joe@pve@demo"], ["demo"]]);
  });

  test("gets a number beside another cluster of its name, and takes the place of one that was there before it", () => {
    const elsewhere = printed({ server: "https://other:8006", "certificate-authority-data": "T1RIRVI=" });
    const { text, contextName } = mergePrinted(elsewhere, printed());
    expect(contextName).toBe("demo-1");
    expect(names(text)).toEqual([
      ["demo", "demo-1"],
      ["joe@pve@demo", "joe@pve@demo-1"],
      ["demo", "demo-1"],
    ]);
    expect(mergePrinted(text, printed()).contextName).toBe("demo-1");
    const before = printed({ "certificate-authority-data": "T1RIRVI=" });
    expect(parse(mergePrinted(before, printed()).text)).toEqual(JSON.parse(printed()));
    const context = "contexts: [{name: demo, context: {cluster: kind-demo, user: me}}]";
    expect(mergePrinted(context, printed()).contextName).toBe("demo-1");
  });

  test("is refused where it is of more than one, and where a file is none", () => {
    expect(() => mergePrinted("", '{"clusters": [], "users": [], "contexts": []}')).toThrow("of one cluster");
    expect(() => mergePrinted("[", printed())).toThrow("is no YAML");
  });
});
