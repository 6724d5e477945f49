import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Permission;
import java.security.Policy;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import javax.tools.ToolProvider;

/**
 * Runs the command-line tools of several releases in one process, one after the other.
 *
 * A line of stdin is a command, fields separated by tabs: the directory of the release's jars, the class or the source
 * file of a program, and in base64 what it reads from stdin and each of its arguments. The answer is a line: exit
 * status, and in base64 what it wrote to stdout and stderr. A tool's `System.exit` ends the tool alone.
 */
@SuppressWarnings("removal") // of the security manager, which Java 17 still has
public class ToolRunner {
    private static final Map<String, ClassLoader> LOADERS = new HashMap<>();
    private static final Set<String> USED = new HashSet<>();
    private static final long HOOK_MS = 20_000;
    private static volatile Output current = new Output();

    static class Output {
        final ThreadGroup threads = new ThreadGroup("tool");
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        volatile Integer status;
    }

    static class Exit extends SecurityException {}

    /** A stream that Scala's Console may keep: what a thread writes goes to the tool that started it. */
    static class Switched extends OutputStream {
        private final boolean isErr;

        Switched(boolean isErr) {
            this.isErr = isErr;
        }

        private OutputStream target() {
            Output now = current;
            boolean isItsOwn = now.threads.parentOf(Thread.currentThread().getThreadGroup());
            return isItsOwn ? (isErr ? now.err : now.out) : OutputStream.nullOutputStream();
        }

        @Override
        public void write(int data) {
            write(new byte[] {(byte) data}, 0, 1);
        }

        @Override
        public void write(byte[] data, int start, int size) {
            try {
                target().write(data, start, size);
            } catch (java.io.IOException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(new Switched(false), true, "UTF-8"));
        System.setErr(new PrintStream(new Switched(true), true, "UTF-8"));
        Policy.setPolicy(new Policy() { // beans of metrics are trusted by it, not by the manager
            @Override
            public boolean implies(ProtectionDomain domain, Permission permission) {
                return true;
            }
        });
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkExit(int status) {
                Output now = current;
                if (now.status == null) {
                    now.status = status; // a tool that catches the exception exits again, with another status
                }
                throw new Exit();
            }

            @Override
            public void checkPermission(Permission permission) {}
        });
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] fields = line.split("\t", -1);
            Output output = new Output();
            current = output;
            Set<Thread> before = new HashSet<>(hooks().keySet());
            Thread thread = new Thread(output.threads, () -> run(fields, output), "main");
            thread.start();
            thread.join();
            end(before);
            answers.println(output.status + "\t" + text(output.out) + "\t" + text(output.err));
        }
        Runtime.getRuntime().halt(0); // threads that a tool left behind end with it
    }

    /** The threads that the system starts when the process ends. */
    @SuppressWarnings("unchecked")
    private static Map<Thread, Thread> hooks() throws Exception {
        Field hooks = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        hooks.setAccessible(true);
        return (Map<Thread, Thread>) hooks.get(null);
    }

    /** Run the hooks of a tool: a console producer sends its last records in one. */
    private static void end(Set<Thread> before) throws Exception {
        List<Thread> added = new ArrayList<>(hooks().keySet());
        added.removeAll(before);
        for (Thread each : added) {
            each.start();
        }
        for (Thread each : added) {
            each.join(HOOK_MS);
            hooks().remove(each);
        }
        System.out.flush();
        System.err.flush();
    }

    private static void run(String[] fields, Output output) {
        try {
            System.setIn(new ByteArrayInputStream(bytes(fields[2])));
            String[] arguments = Arrays.stream(fields).skip(3).map(each -> new String(bytes(each), StandardCharsets.UTF_8))
                .toArray(String[]::new);
            Class<?> program = program(fields[0], fields[1]);
            Thread.currentThread().setContextClassLoader(program.getClassLoader());
            program.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Exit)) {
                error.getCause().printStackTrace();
                output.status = 1;
            }
        } catch (Exception error) {
            error.printStackTrace();
            output.status = 1;
        }
        if (output.status == null) {
            output.status = 0;
        }
    }

    private static Class<?> program(String libs, String name) throws Exception {
        for (int number = 0; ; number++) {
            ClassLoader loader = LOADERS.get(libs + number);
            if (loader == null) {
                loader = new URLClassLoader(urls(libs), ClassLoader.getPlatformClassLoader());
                LOADERS.put(libs + number, loader);
            }
            boolean isNew = USED.add(loader.hashCode() + name);
            if (name.endsWith(".java")) {
                return compiled(libs, name, loader);
            }
            if (isNew || !name.equals("kafka.tools.ConsoleConsumer")) { // it counts over all its runs
                return loader.loadClass(name);
            }
        }
    }

    private static URL[] urls(String libs) throws Exception {
        List<URL> urls = new ArrayList<>();
        for (File jar : new File(libs).listFiles()) {
            urls.add(jar.toURI().toURL());
        }
        return urls.toArray(new URL[0]);
    }

    private static Class<?> compiled(String libs, String source, ClassLoader parent) throws Exception {
        ClassLoader loader = LOADERS.get(libs + source);
        if (loader == null) {
            Path classes = Files.createTempDirectory("classes");
            String jars = Arrays.stream(new File(libs).listFiles()).map(File::getPath)
                .collect(Collectors.joining(File.pathSeparator));
            int status = ToolProvider.getSystemJavaCompiler()
                .run(null, null, null, "-nowarn", "-proc:none", "-cp", jars, "-d", classes.toString(), source);
            if (status != 0) {
                throw new IllegalArgumentException(source + " does not fit the jars of " + libs);
            }
            loader = new URLClassLoader(new URL[] {classes.toUri().toURL()}, parent);
            LOADERS.put(libs + source, loader);
        }
        return loader.loadClass(Path.of(source).getFileName().toString().replace(".java", ""));
    }

    private static byte[] bytes(String field) {
        return Base64.getDecoder().decode(field);
    }

    private static String text(ByteArrayOutputStream output) {
        return Base64.getEncoder().encodeToString(output.toByteArray());
    }
}
