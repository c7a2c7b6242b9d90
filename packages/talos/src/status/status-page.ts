// A cluster's status as one page without scripts or anything from elsewhere.
import { type ClusterStatus, labelText } from "./cluster-status.ts";

const STYLE = `body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c2430;background:#f6f7f9}
h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}.when{color:#66707c}
table{border-collapse:collapse;width:100%;background:#fff;border-radius:8px;overflow:hidden;box-shadow:0 1px 3px #0002}
th,td{text-align:left;padding:.45rem .8rem;border-bottom:1px solid #e8ebef}th{background:#eef1f5;font-weight:600}
.ok{color:#0a7d3c}.bad{color:#b3261e;font-weight:600}.pill{display:inline-block;padding:.1rem .7rem;border-radius:1rem;color:#fff}
.pill.ok{background:#0a7d3c;color:#fff}.pill.bad{background:#b3261e;color:#fff}
@media(prefers-color-scheme:dark){body{background:#14181d;color:#dfe4ea}table{background:#1c2228}th{background:#252c34}td,th{border-color:#2d353e}}`;

const GOOD = /^(ready|Ready|healthy(, leader)?)$/;

export function statusPage(status: ClusterStatus): string {
  const pill = status.isHealthy
    ? `<span class="pill ok">healthy</span>`
    : `<span class="pill bad">not healthy</span>`;
  const labels = labelText(status);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${safe(status.cluster)}</title><style>${STYLE}</style></head><body>
<h1>${safe(status.cluster)} ${pill}</h1>
<p class="when">Talos ${safe(status.wanted.talos)}, Kubernetes ${safe(status.wanted.kubernetes)}, seen at ${safe(status.at)}${labels === "" ? "" : `; ${safe(labels)}`}</p>
<h2>Checks</h2>
${table(
  ["", "Check", "Seen"],
  status.checks.map(({ name, isFine, detail }) => [mark(isFine), safe(name), safe(detail)]),
)}
<h2>Machines</h2>
${table(
  ["Machine", "Host", "VMID", "Address", "State", "Talos", "Kubelet", "etcd", "Node"],
  status.machines.map((each) => [
    safe(each.name),
    safe(each.host),
    safe(String(each.vmid ?? "")),
    safe(each.address),
    coloured(each.state),
    safe(each.talos),
    safe(each.kubelet),
    coloured(each.etcd),
    coloured(each.node),
  ]),
)}
<h2>Certificates and backups</h2>
${table(
  ["What", "Seen"],
  [
    ...status.certificates.map(({ name, daysLeft }) => [safe(name), `${daysLeft} days left`]),
    ["Last snapshot of etcd", safe(status.snapshot?.at ?? "none")],
    ["Last restore drill", safe(status.drill?.at ?? "none")],
  ],
)}
</body></html>
`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, row: readonly string[]): string =>
    `<tr>${row.map((cell) => `<${tag}>${cell}</${tag}>`).join("")}</tr>`;
  return `<table>${cells("th", head)}${rows.map((row) => cells("td", row)).join("")}</table>`;
}

const mark = (isFine: boolean): string =>
  isFine ? `<span class="ok">✓</span>` : `<span class="bad">✗</span>`;

const coloured = (text: string): string =>
  text === "" ? "" : `<span class="${GOOD.test(text) ? "ok" : "bad"}">${safe(text)}</span>`;

function safe(text: string): string {
  const names: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (char) => names[char] ?? char);
}
