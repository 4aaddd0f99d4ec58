/**
 * A client of Wending's API in one file, for Node 18 and newer, Deno, Bun and browsers, without dependencies. Its types
 * are written as comments, which TypeScript checks (`// @ts-check`, or `allowJs` in tsconfig.json).
 *
 * It has no list of endpoints: it reads the server's OpenAPI document, and calls an operation by its id there.
 *
 *     const client = await Client.connect("https://wending.example", "wnd_...");
 *     const task = await client.call("create-task", {
 *       body: { task_name: "v1.2", agent_api_url: "https://agent.example/run" },
 *       files: { dataset_file: new File([questions], "questions.csv") },
 *     });
 *     await client.awaitEnd(task.task_id);
 *     const report = await client.call("get-statistics", { task_id: task.task_id });
 *
 * As a program, it evaluates an agent and prints the agreement of its answers:
 *
 *     WENDING_SERVER=http://127.0.0.1:8080 WENDING_TOKEN=wnd_... node wending.mjs AGENT_URL questions.csv
 */
// @ts-check

/** An error of the API: its status, code and details. */
export class Refused extends Error {
  /** @param {number} status @param {{code?: string, message?: string, details?: object[]}} body */
  constructor(status, body) {
    super(`${status} ${body.code}: ${body.message}`);
    this.status = status;
    this.code = body.code;
    this.details = body.details ?? [];
  }
}

/**
 * @typedef {{operationId: string, parameters?: {name: string, in: string}[]}} Operation
 * @typedef {{body?: Record<string, any>, files?: Record<string, any>} & Record<string, any>} Arguments
 */

export class Client {
  /** @param {string} server @param {string} [token] */
  static async connect(server, token) {
    const client = new Client(server, token);
    const document = await client.send("GET", "/api/openapi.json");
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        client.operations.set(operation.operationId, { method: method.toUpperCase(), path, operation });
      }
    }
    return client;
  }

  /** @param {string} server @param {string} [token] */
  constructor(server, token) {
    this.server = server.replace(/\/$/, "");
    this.token = token;
    /** @type {Map<string, {method: string, path: string, operation: Operation}>} */
    this.operations = new Map();
  }

  /**
   * Calls an operation. The parameters of its path and query are members of its arguments; body has the fields, and
   * files the files by field. Returns the decoded JSON, or text if the response is not JSON.
   * @param {string} operationId @param {Arguments} [given] @returns {Promise<any>}
   */
  async call(operationId, { body, files, ...parameters } = {}) {
    const known = this.operations.get(operationId);
    if (!known) throw new TypeError(`no operation ${operationId}`);
    const query = new URLSearchParams();
    let path = known.path;
    for (const [name, value] of Object.entries(parameters)) {
      const place = known.operation.parameters?.find((one) => one.name === name)?.in;
      if (!place) throw new TypeError(`${operationId} has no parameter ${name}`);
      if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
      else for (const one of [value].flat()) query.append(name, String(one));
    }
    if (query.toString()) path += `?${query}`;
    if (!files) return this.send(known.method, path, body && JSON.stringify(body), body && "application/json");
    const form = new FormData();
    for (const [name, value] of Object.entries(body ?? {})) {
      form.set(name, typeof value === "string" ? value : JSON.stringify(value));
    }
    for (const [name, file] of Object.entries(files)) form.set(name, file);
    return this.send(known.method, path, form);
  }

  /** Waits until a task has ended, and returns it. @param {string} taskId @param {number} [every] milliseconds */
  async awaitEnd(taskId, every = 1000) {
    for (;;) {
      const task = await this.call("get-task", { task_id: taskId });
      if (task.status !== "PENDING" && task.status !== "RUNNING") return task;
      await new Promise((resolve) => setTimeout(resolve, every));
    }
  }

  /** @param {string} method @param {string} path @param {any} [body] @param {string} [type] */
  async send(method, path, body, type) {
    const headers = new Headers();
    if (type) headers.set("Content-Type", type);
    if (this.token) headers.set("Authorization", `Bearer ${this.token}`);
    const answer = await fetch(this.server + path, { method, headers, body });
    const text = await answer.text();
    const isJSON = answer.headers.get("Content-Type")?.includes("json");
    const content = isJSON && text ? JSON.parse(text) : text;
    if (!answer.ok) throw new Refused(answer.status, isJSON ? content : { message: text });
    return content;
  }
}

/** @param {string} agentURL @param {string} file */
async function main(agentURL, file) {
  const { readFile } = await import("node:fs/promises");
  const { basename } = await import("node:path");
  const client = await Client.connect(process.env.WENDING_SERVER || "http://127.0.0.1:8080", process.env.WENDING_TOKEN);
  const form = new FormData();
  form.set("file", new Blob([await readFile(file)]), basename(file));
  const created = await client.call("create-task", {
    body: { task_name: "from JavaScript", agent_api_url: agentURL, runs_per_item: 3 },
    files: { dataset_file: form.get("file") },
  });
  const task = await client.awaitEnd(created.task_id);
  const worst = await client.call("get-results", { task_id: task.task_id, sort: "risk", page_size: 3 });
  console.log("status:", task.status);
  console.log("agreement:", task.statistics.agreement);
  for (const item of worst.items) console.log(`${item.question_id}: ${item.level} ${item.letters}`);
  const report = await client.call("export-results", { task_id: task.task_id, format: "csv" });
  console.log("report:", report.trim().split("\n").length - 1, "rows");
}

if (typeof process !== "undefined" && process.argv[1] && import.meta.url.endsWith(`/${process.argv[1].split("/").pop()}`)) {
  main(process.argv[2], process.argv[3]).catch((error) => {
    console.error(error instanceof Refused ? `refused: ${error.message}` : error);
    process.exitCode = 1;
  });
}
