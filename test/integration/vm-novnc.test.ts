// noVNC, as clients use it, in a real browser against a real guest: what it draws is the guest's screen.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, root, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

/** What this test uses of playwright-core. */
interface Page {
  route(pattern: string, answer: (route: Route) => Promise<void>): Promise<void>;
  goto(url: string): Promise<unknown>;
  waitForFunction(expression: string): Promise<unknown>;
  evaluate(expression: string): Promise<unknown>;
  locator(selector: string): { screenshot(): Promise<Buffer> };
  close(): Promise<void>;
}
interface Route {
  request(): { url(): string };
  fulfill(answer: { contentType: string; body: string }): Promise<void>;
}
interface Context {
  addCookies(cookies: readonly Readonly<Record<string, unknown>>[]): Promise<void>;
  newPage(): Promise<Page>;
}
interface Browser {
  newContext(options: { ignoreHTTPSErrors: boolean }): Promise<Context>;
  contexts(): readonly Context[];
  close(): Promise<void>;
}
interface BrowserTools {
  readonly launch: (options: { executablePath: string; args: readonly string[] }) => Promise<Browser>;
  readonly executablePath: () => Promise<string>;
  readonly args: readonly string[];
}

const tools = await browserTools();
const canRun = hasQemu && tools !== undefined;

/** A browser is a large thing that only this test needs: an installation may leave it out. */
async function browserTools(): Promise<BrowserTools | undefined> {
  const load = async (name: string): Promise<unknown> => import(name);
  try {
    const { chromium } = (await load("playwright-core")) as { chromium: Pick<BrowserTools, "launch"> };
    const packed = (await load("@sparticuz/chromium")) as { default: Omit<BrowserTools, "launch"> };
    return {
      launch: (options) => chromium.launch(options),
      executablePath: () => packed.default.executablePath(),
      args: packed.default.args,
    };
  } catch (err) {
    console.warn(`SKIPPED: no browser (${String(err)}); get it with: npm install`);
    return undefined;
  }
}

let gpve: Gpve;
let api: Api;
let browser: Browser;
let node: string;

beforeAll(async () => {
  if (!canRun) return;
  gpve = await startGpve();
  const login = await apiOf(gpve.credentials, {})("POST", "/access/ticket", {
    username: gpve.credentials.username,
    password: gpve.credentials.password,
  });
  const { ticket, CSRFPreventionToken: csrf } = login.data as {
    ticket: string;
    CSRFPreventionToken: string;
  };
  const cookie = `PVEAuthCookie=${encodeURIComponent(ticket)}`;
  api = apiOf(gpve.credentials, { Cookie: cookie, CSRFPreventionToken: csrf });
  node = await firstNode(api);
  await vi.waitFor(
    async () => {
      const made = await api("POST", `/nodes/${node}/qemu`, { vmid: 100, memory: 64 });
      expect((await waitTask(api, made.data)).exitstatus).toBe("OK");
    },
    { timeout: 150_000, interval: 1_000 },
  );
  const started = await api("POST", `/nodes/${node}/qemu/100/status/start`);
  expect((await waitTask(api, started.data)).exitstatus).toBe("OK");
  browser = await tools.launch({
    executablePath: await tools.executablePath(),
    args: [...tools.args, "--no-sandbox"],
  });
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const url = new URL(gpve.credentials.url);
  await context.addCookies([
    {
      name: "PVEAuthCookie",
      value: encodeURIComponent(ticket),
      domain: url.hostname,
      path: "/",
      secure: true,
      sameSite: "None",
    },
  ]);
});
afterAll(async () => {
  if (!canRun) return;
  await browser?.close();
  await waitTask(api, (await api("POST", `/nodes/${node}/qemu/100/status/stop`)).data);
  await gpve.stop();
});

const PAGE = `<!doctype html><body style="margin:0"><div id="screen" style="width:720px;height:400px"></div>
<script type="module">
import RFB from "/novnc/core/rfb.js";
window.show = (url, password) => new Promise((done, fail) => {
  const rfb = new RFB(document.getElementById("screen"), url, { credentials: { password }, wsProtocols: ["binary"] });
  rfb.addEventListener("connect", () => done("connected"));
  rfb.addEventListener("securityfailure", (e) => fail(new Error("security: " + e.detail.reason)));
  rfb.addEventListener("disconnect", (e) => fail(new Error("disconnected, clean: " + e.detail.clean)));
});
window.ready = true;
</script></body>`;

describe.skipIf(!canRun)("noVNC", () => {
  test("shows what the guest has on its screen", async () => {
    const [context] = browser.contexts();
    const page = await context?.newPage();
    if (page === undefined) throw new Error("the browser has no page");
    // noVNC's own files, served as if this server had them: one origin, as with any front end beside the API.
    await page.route("**/novnc/**", (route) => {
      const { pathname } = new URL(route.request().url());
      if (pathname === "/novnc/") return route.fulfill({ contentType: "text/html", body: PAGE });
      const file = join(root, "node_modules/@novnc", pathname);
      return route.fulfill({ contentType: "text/javascript", body: readFileSync(file, "utf8") });
    });
    await page.goto(`${gpve.credentials.url}/novnc/`);
    await page.waitForFunction("window.ready");
    const proxy = (
      await api("POST", `/nodes/${node}/qemu/100/vncproxy`, { websocket: 1, "generate-password": 1 })
    ).data as {
      port: number;
      ticket: string;
      password: string;
      upid: string;
    };
    const target = `${gpve.credentials.url.replace("https", "wss")}/api2/json/nodes/${node}/qemu/100/vncwebsocket?port=${proxy.port}&vncticket=${encodeURIComponent(proxy.ticket)}`;
    const shown = page.evaluate(`window.show(${JSON.stringify(target)}, ${JSON.stringify(proxy.password)})`);
    expect(await shown).toBe("connected");
    // SeaBIOS writes light text on black: a blank screen has one colour.
    await vi.waitFor(
      async () => {
        const picture = await page.locator("#screen canvas").screenshot();
        expect(await coloursOf(page, picture)).toBeGreaterThan(1);
      },
      { timeout: 150_000, interval: 500 },
    );
    await page.close();
    expect((await waitTask(api, proxy.upid)).exitstatus).toBe("OK");
  });
});

/** How many colours a picture has; the browser knows how to read one. */
async function coloursOf(page: Page, png: Buffer): Promise<number> {
  const count = await page.evaluate(
    `(async () => {
      const picture = await createImageBitmap(await (await fetch("data:image/png;base64,${png.toString("base64")}")).blob());
      const canvas = new OffscreenCanvas(picture.width, picture.height);
      const context = canvas.getContext("2d");
      context.drawImage(picture, 0, 0);
      const { data } = context.getImageData(0, 0, picture.width, picture.height);
      return new Set(new Uint32Array(data.buffer)).size;
    })()`,
  );
  return Number(count);
}
